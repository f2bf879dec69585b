"""Serves `/metrics` on its own port: the parent reads each worker's Unix socket and adds up.

Workers count in plain integers; multiprocess Prometheus would cost each request 2 to 3.5 µs. Only
the answering process loads Prometheus' library, at the first scrape: it takes a megabyte.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.telemetry.metrics import Snapshot
from penstock.telemetry.page_server import PageServer

_ASK_SECONDS = 1.0
_SNAPSHOT_BYTES_MAX = 256 * 2**20

logger = logging.getLogger(__name__)


async def hand_out(snapshot: Callable[[], Snapshot], folder: Path) -> asyncio.Server:
    """Serve this worker's current counters to every process that connects to its socket."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(msgspec.json.encode(snapshot()))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    path = folder / f"{os.getpid()}.sock"
    # Renamed only when it accepts connections: a socket that is merely bound looks dead.
    unready = path.with_suffix(".new")
    server = await asyncio.start_unix_server(answer, unready)
    unready.rename(path)
    return server


def collect(folder: Path) -> list[Snapshot]:
    """Read every worker's counters, and remove the sockets that dead workers left behind."""
    snapshots = []
    for path in sorted(folder.glob("*.sock")):
        try:
            snapshots.append(msgspec.json.decode(_ask(path), type=Snapshot))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (OSError, msgspec.DecodeError):
            logger.warning("worker gave no metrics", extra={"action": "metrics_missing"})
    return snapshots


def _ask(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ASK_SECONDS)
        connection.connect(str(path))
        parts: list[bytes] = []
        size = 0
        while data := connection.recv(65536):
            parts.append(data)
            size += len(data)
            if size > _SNAPSHOT_BYTES_MAX:
                raise OSError("the snapshot is too large")
        return b"".join(parts)


class MetricsServer(PageServer):
    """Serves the current figures of all workers of this gateway, in the parent process."""

    def __init__(self, host: str, port: int, folder: Path) -> None:
        super().__init__(host, port, lambda: _page(folder))


def _page(folder: Path) -> bytes:
    from penstock.telemetry.collector import render  # noqa: PLC0415 - see above

    return render(collect(folder))
