"""A bucket of one file, of which it sends the first half, and the rest when a test lets it go.

It speaks as much of S3 as a fetch of weights asks for, and notes every range that was asked.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.store import StoreSettings

SIZE = 128 * 2**20
NAME = "model.safetensors"
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_LIST = f"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult><Name>models</Name><IsTruncated>false</IsTruncated><Contents>
<Key>{{prefix}}/{NAME}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>
<ETag>"one"</ETag><Size>{SIZE}</Size></Contents></ListBucketResult>"""


class HeldBucket:
    """Its address, and what was asked of it."""

    def __init__(self) -> None:
        self.sent_max = SIZE // 2
        self.asked: list[int] = []
        self.lists = 0
        self._changed = threading.Condition()
        self._has_ended = False
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                bucket.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Stay silent: what it was asked is in `asked`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def settings(self, dsn: str) -> StoreSettings:
        return StoreSettings(
            dsn=dsn,
            pool_size_max=16,
            objects_endpoint=self.address,
            objects_access_key="any",
            objects_secret_key="any",
        )

    def let_go(self) -> None:
        """Send the rest too, from now on."""
        with self._changed:
            self.sent_max = SIZE
            self._changed.notify_all()

    def hold(self) -> None:
        """Send no more than half of the file, from now on."""
        self.sent_max = SIZE // 2

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        found = _RANGE.match(request.headers.get("range", ""))
        if found is None:
            self.lists += 1
            prefix = re.search(r"prefix=([^&]*)", request.path)
            assert prefix is not None
            text = _LIST.format(prefix=prefix[1].replace("%2F", "/").rstrip("/"))
            self._send(request, 200, text.encode(), {"content-type": "application/xml"})
            return
        first, last = int(found[1]), int(found[2])
        with self._changed:
            self._changed.wait_for(lambda: last < self.sent_max or self._has_ended, timeout=60)
            self.asked.append(first)
        headers = {
            "content-range": f"bytes {first}-{last}/{SIZE}",
            "etag": '"one"',
            "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT",
        }
        self._send(request, 206, bytes(last - first + 1), headers)

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]
    ) -> None:
        try:
            request.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            # The keeper was killed meanwhile.
            self.asked.append(-1)

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def end(self) -> None:
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def held_bucket() -> Iterator[HeldBucket]:
    bucket = HeldBucket()
    thread = threading.Thread(target=bucket.run)
    thread.start()
    try:
        yield bucket
    finally:
        bucket.end()
        thread.join()
