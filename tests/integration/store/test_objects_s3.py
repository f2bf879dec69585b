"""Objects in a bucket, on a real S3 server."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integration.cells.gateway_process import free_port

from penstock.errors import NotFound, StoreUnavailable
from penstock.store import Objects, StoreSettings
from penstock.testing.clear_objects import clear_objects

_START_SECONDS = 50.0
BUCKET = "penstock-test"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. It has one bucket and asks for no key."""
    folder = tmp_path_factory.mktemp("s3")
    ports = {name: free_port() for name in ("s3", "master", "volume", "filer")}
    options = [f"-{name}.port={port}" for name, port in ports.items()]
    options += [f"-{name}.port.grpc={free_port()}" for name in ports]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "weed"),
                "server",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                f"-dir={folder}",
                "-volume.max=20",
                "-master.volumeSizeLimitMB=64",
                "-s3",
                *options,
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    address = f"http://127.0.0.1:{ports['s3']}"
    try:
        _make_bucket(address, server)
        yield address
    finally:
        # It takes its time to end when it is asked to.
        server.kill()
        server.wait()


@pytest.fixture
async def objects(s3: str) -> Objects:
    opened = clear_objects(
        StoreSettings(
            objects_url=f"s3://{BUCKET}/some/prefix",
            objects_endpoint=s3,
            objects_access_key="any",
            objects_secret_key="any",
            objects_piece_bytes=2**20,
        )
    )
    await opened.open()
    return opened


async def test_objects_in_a_bucket_behave_as_in_a_folder(objects: Objects) -> None:
    await objects.put("account/job/hash", b"one")
    await objects.put("account/job/hash", b"two")
    assert await objects.get("account/job/hash") == b"two"
    await objects.delete(["account/job/hash", "account/job/none"])
    with pytest.raises(NotFound):
        await objects.get("account/job/hash")
    with pytest.raises(NotFound):
        await anext(objects.stream("account/job/hash"))


async def test_a_large_stream_goes_in_and_out_in_parts(objects: Objects) -> None:
    async def numbered() -> AsyncIterator[bytes]:
        for number in range(12):
            yield bytes([number]) * 2**20

    assert await objects.put_stream("a/b/large", numbered()) == 12 * 2**20
    pieces = [piece[:1] + piece[-1:] async for piece in objects.stream("a/b/large")]
    assert pieces == [bytes([number]) * 2 for number in range(12)]


async def test_an_s3_that_does_not_answer_is_an_outage() -> None:
    settings = StoreSettings(
        objects_url=f"s3://{BUCKET}/prefix",
        objects_endpoint=f"http://127.0.0.1:{free_port()}",
        objects_access_key="any",
        objects_secret_key="any",
        objects_seconds=1,
    )
    objects = clear_objects(settings)
    await objects.open()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await objects.put("a/b/c", b"1")


def _make_bucket(address: str, server: subprocess.Popen[bytes]) -> None:
    """As soon as it can be made: the server takes some twenty seconds to begin."""
    until = time.monotonic() + _START_SECONDS
    request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
    while time.monotonic() < until:
        assert server.poll() is None, "the S3 server ended"
        with suppress(OSError, socket.timeout), urllib.request.urlopen(request, timeout=5):
            return
        time.sleep(0.2)
    raise AssertionError("the S3 server does not answer")
