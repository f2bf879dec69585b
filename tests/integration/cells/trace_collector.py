"""A collector of traces on 127.0.0.1: it reads our posts strictly, or hangs, or refuses.

Engines post to it too, as protobuf.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.integration.cells.gateway_process import eventually
from tests.unit.telemetry.read_spans import (
    EngineSpan,
    SentSpan,
    only_tree,
    read_engine_spans,
    read_spans,
)


class TraceCollector:
    """Keeps the spans that it got. While `status` is 0, posts are read and never answered."""

    def __init__(self) -> None:
        self.status = 200
        self.posts = 0
        # What was wrong with a post.
        self.faults: list[BaseException] = []
        self.engine_spans: list[EngineSpan] = []
        self._spans: list[SentSpan] = []
        self._ending = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        self.posts += 1
        if self.status == 0:
            self._ending.wait(60)
            return
        if self.status == 200:
            try:
                assert request.path == "/v1/traces"
                if request.headers["content-type"] == "application/x-protobuf":
                    self.engine_spans += read_engine_spans(body)
                else:
                    assert request.headers["content-type"] == "application/json"
                    self._spans += read_spans(body)
            except BaseException as fault:
                self.faults.append(fault)
                raise
        request.send_response(self.status)
        request.send_header("content-length", "2")
        request.end_headers()
        request.wfile.write(b"{}")

    def spans(self) -> list[SentSpan]:
        assert not self.faults, self.faults
        return list(self._spans)

    def tree(
        self, is_root: Callable[[SentSpan], bool], seconds: float = 10.0
    ) -> tuple[SentSpan, list[SentSpan]]:
        """The tree of the only root of which this is so, as soon as it has come."""
        eventually(lambda: any(map(is_root, self.spans())), seconds)
        [root] = filter(is_root, self.spans())
        return only_tree(span for span in self.spans() if span.trace_id == root.trace_id)

    def tree_of(self, request_id: str) -> tuple[SentSpan, list[SentSpan]]:
        """The tree of one HTTP request."""
        asked = ("SERVER", request_id)
        return self.tree(lambda s: (s.kind, s.attributes.get("penstock.request.id")) == asked)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
