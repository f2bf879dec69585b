"""Objects in a bucket, on a real S3 server."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.integration.cells.gateway_process import free_port
from tests.integration.cells.s3_server import BUCKET, s3_server

from penstock.errors import NotFound, StoreUnavailable
from penstock.store import Objects, StoreSettings
from penstock.testing.clear_objects import clear_objects


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        yield address


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
