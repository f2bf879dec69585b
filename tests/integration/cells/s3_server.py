"""A real S3 server for tests."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.cells.gateway_process import free_port

_START_SECONDS = 50.0
BUCKET = "penstock-test"


@contextmanager
def s3_server(folder: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Its address. It has one bucket and asks for no key."""
    ports = {name: free_port() for name in ("master", "volume", "filer")}
    ports["s3"] = port or free_port()
    options = [f"-{name}.port={port}" for name, port in ports.items()]
    options += [f"-{name}.port.grpc={free_port()}" for name in ports]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "weed"),
                "server",
                f"-ip={host}",
                f"-ip.bind={host}",
                f"-dir={folder}",
                "-volume.max=20",
                "-master.volumeSizeLimitMB=64",
                "-s3",
                # At ports of their own, which a second server beside this one would want too.
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                *options,
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    address = f"http://{host}:{ports['s3']}"
    try:
        _make_bucket(address, server)
        yield address
    finally:
        # It takes its time to end when it is asked to.
        server.kill()
        server.wait()


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
