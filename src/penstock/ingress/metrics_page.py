"""Serves `/metrics` on its own port: the parent reads each worker's Unix socket and adds up.

Workers count in plain integers; multiprocess Prometheus would cost each request 2 to 3.5 µs. Only
the answering process loads Prometheus' library, at the first scrape: it takes a megabyte.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.telemetry.metrics import Snapshot
from penstock.telemetry.page_server import PageServer

_ASK_SECONDS = 1.0
_SNAPSHOT_BYTES_MAX = 256 * 2**20
# Of workers that ended, by model, account, workflow and family.
_ENDED_ROWS_MAX = 20_000

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


def collect(folder: Path) -> dict[Path, Snapshot]:
    """Read every worker's counters, and remove the sockets that dead workers left behind."""
    snapshots = {}
    for path in sorted(folder.glob("*.sock")):
        try:
            snapshots[path] = msgspec.json.decode(_ask(path), type=Snapshot)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (OSError, msgspec.DecodeError):
            logger.warning("worker gave no metrics", extra={"action": "metrics_missing"})
    return snapshots


class WorkerCounts:
    """Reads all workers, and keeps the counters of those that ended or do not answer now.

    Without these a sum would fall, which Prometheus takes for a restart: it would count all that
    the other workers ever counted as new.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: dict[Path, Snapshot] = {}
        self._ended: Snapshot | None = None
        # Scrapes may overlap.
        self._lock = threading.Lock()

    def page(self, workers_wanted: int) -> bytes:
        """Return the page of metrics."""
        from penstock.telemetry.collector import (  # noqa: PLC0415 - see above
            counters_of,
            render,
        )

        with self._lock:
            found = collect(self._folder)
            missing = {path: last for path, last in self._last.items() if path not in found}
            silent = {path: last for path, last in missing.items() if path.exists()}
            ended = [last for path, last in missing.items() if path not in silent]
            if ended:
                kept = counters_of([*([self._ended] if self._ended else []), *ended])
                # One fall is better than growing with every worker that dies.
                rows = len(kept.rows) + len(kept.workflows) + len(kept.families)
                self._ended = kept if rows <= _ENDED_ROWS_MAX else None
            self._last = found | silent
            past = [counters_of(silent.values())] + ([self._ended] if self._ended else [])
        return render(found.values(), workers_wanted, past)


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

    def __init__(self, host: str, port: int, folder: Path, workers: int) -> None:
        counts = WorkerCounts(folder)
        super().__init__(host, port, lambda: counts.page(workers))
