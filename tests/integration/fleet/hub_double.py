"""A small double of Hugging Face's server: one model, of which it holds back half of one file.

It answers the list of a revision, the tree of a commit, and files with ranges, as the library asks.
"""

import json
import re
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_RANGE = re.compile(r"bytes=(\d+)-")
_PIECE_BYTES = 2**20


class HubDouble:
    """Serves `owner/name` at any revision but `none`; notes the first byte of each file request."""

    def __init__(self, files: dict[str, bytes], held: str) -> None:
        self._files = files
        self._held = held
        # How many downloads ended before their file did.
        self.cut = 0
        self.first_bytes: dict[str, list[int]] = {}
        self.revisions: list[str] = []
        self.may_finish = threading.Event()
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.answer(self, has_body=True)

            def do_HEAD(self) -> None:
                double.answer(self, has_body=False)

            def log_message(self, format: str, *args: Any) -> None:
                """Stay silent: the fields say what was asked."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler, *, has_body: bool) -> None:
        path = request.path.partition("?")[0]
        if path == f"/api/models/owner/name/tree/{COMMIT}":
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": f"{index:040x}"}
                for index, (name, content) in enumerate(self._files.items())
            ]
            self._send_json(request, 200, tree)
        elif found := re.fullmatch(r"/api/models/owner/name(?:/revision/(.+))?", path):
            self.revisions.append(found[1] or "")
            if found[1] == "none":
                self._send_json(request, 404, {"error": "no"}, {"x-error-code": "RevisionNotFound"})
                return
            siblings = [
                {"rfilename": name, "size": len(content)} for name, content in self._files.items()
            ]
            self._send_json(request, 200, {"id": "owner/name", "sha": COMMIT, "siblings": siblings})
        elif path.startswith(prefix := f"/owner/name/resolve/{COMMIT}/"):
            self._send_file(request, path.removeprefix(prefix), has_body=has_body)
        else:
            self._send_json(request, 404, {}, {"x-error-code": "RepoNotFound"})

    def _send_json(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        value: object,
        headers: dict[str, str] | None = None,
    ) -> None:
        body = json.dumps(value).encode()
        request.send_response(status)
        for name, text in {**(headers or {}), "content-type": "application/json"}.items():
            request.send_header(name, text)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _send_file(self, request: BaseHTTPRequestHandler, name: str, *, has_body: bool) -> None:
        content = self._files[name]
        found = _RANGE.match(request.headers.get("range", ""))
        first = int(found[1]) if found else 0
        request.send_response(206 if found else 200)
        request.send_header("x-repo-commit", COMMIT)
        request.send_header("etag", f'"{list(self._files).index(name):040x}"')
        request.send_header("accept-ranges", "bytes")
        request.send_header("content-length", str(len(content) - first))
        if found:
            request.send_header("content-range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        request.end_headers()
        if not has_body:
            return
        self.first_bytes.setdefault(name, []).append(first)
        for start in range(first, len(content), _PIECE_BYTES):
            if name == self._held and start >= len(content) // 2:
                self._wait(request)
            try:
                request.wfile.write(content[start : start + _PIECE_BYTES])
            except OSError:
                self.cut += 1
                return

    def _wait(self, request: BaseHTTPRequestHandler) -> None:
        """Hold a file back until it may be finished, or its client has gone."""
        while not self.may_finish.wait(0.05):
            if select.select([request.connection], [], [], 0)[0]:
                return

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def end(self) -> None:
        self.may_finish.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def hub_double(files: dict[str, bytes], held: str) -> Iterator[HubDouble]:
    double = HubDouble(files, held)
    thread = threading.Thread(target=double.run)
    thread.start()
    try:
        yield double
    finally:
        double.end()
        thread.join()
