"""`/metrics` on its own port: the gateway's parent asks each worker over a Unix socket and adds up.

Workers count in plain integers; multiprocess Prometheus would cost each request 2 to 3.5 µs.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from penstock.telemetry.collector import render
from penstock.telemetry.metrics import Snapshot

_ASK_SECONDS = 1.0
_SNAPSHOT_BYTES_MAX = 256 * 2**20

logger = logging.getLogger(__name__)


async def hand_out(snapshot: Callable[[], Snapshot], folder: Path) -> asyncio.Server:
    """A worker's side: whoever connects gets the numbers as they are now."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(msgspec.json.encode(snapshot()))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(answer, folder / f"{os.getpid()}.sock")


def collect(folder: Path) -> list[Snapshot]:
    """The parent's side: ask every worker there is; one that has died leaves its socket behind."""
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


class MetricsServer:
    """A small HTTP server in a thread of its own, so that it answers while workers are busy."""

    def __init__(self, host: str, port: int, folder: Path) -> None:
        class Page(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                is_found = self.path.partition("?")[0] == "/metrics"
                page = render(collect(folder)) if is_found else b"See /metrics\n"
                self.send_response(200 if is_found else 404)
                self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer((host, port), Page)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
