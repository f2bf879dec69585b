"""Serves `/metrics` over HTTP in a separate thread, so that it answers when the process is busy."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PageServer:
    """HTTP server for one page. Calls `page`, which must be thread-safe, for every request."""

    def __init__(self, host: str, port: int, page: Callable[[], bytes]) -> None:
        class Page(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                is_found = self.path.partition("?")[0] == "/metrics"
                text = page() if is_found else b"See /metrics\n"
                self.send_response(200 if is_found else 404)
                self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

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
