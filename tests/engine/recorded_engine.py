"""Stands between a gateway and a real engine, passes every byte on, and keeps what the engine said.

So a test knows the last usage that the engine sent, also when nobody waited for the next one.
"""

import contextlib
import json
import re
import socket
import socketserver
import threading
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_USAGE = re.compile(rb'"usage":(\{(?:[^{}]|\{[^{}]*\})*\})')


class RecordedEngine:
    """`url` is where a gateway finds it; `said` is all that the engine answered."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._engine = (parts.hostname, parts.port)
        self.said = bytearray()
        relay = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection(relay._engine) as engine:
                    back = threading.Thread(target=relay._pass_on, args=(engine, self.request))
                    back.start()
                    _copy(self.request, engine)
                    back.join()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def usages(self) -> list[dict[str, Any]]:
        """Those that went to the gateway, the last one last."""
        return [json.loads(found) for found in _USAGE.findall(bytes(self.said))]

    def _pass_on(self, engine: socket.socket, gateway: socket.socket) -> None:
        # Kept once it is sent: what the gateway cannot have seen does not count.
        with contextlib.suppress(OSError):
            while data := engine.recv(65536):
                gateway.sendall(data)
                self.said += data
        with contextlib.suppress(OSError):
            gateway.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
