"""Reads requests from a client's connection: heads, bodies, and where each request goes.

A head is parsed unless its bytes repeat a known head. A long body of known length bypasses the
parser, which would copy it. Inference requests go to the inference endpoint; all others go through
uvicorn to Starlette.
"""

from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from penstock.errors import BodyTooLarge, Error, HeadersTooLarge, InvalidRequest, Overloaded
from penstock.ingress.http import request_heads
from penstock.ingress.http.body_budget import HeldBody
from penstock.ingress.http.bounded_connection import BoundedConnection
from penstock.ingress.http.client_deadline import BODY, HEAD, SERVING
from penstock.ingress.http.exchange import Exchange
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.routes import is_inference
from penstock.wire.http.known_head import KnownHead

# With at least this much of a body to come, bypassing the parser pays.
LONG_BYTES: Final = 64 * 1024


class ClientProtocol(BoundedConnection):
    """One per connection. The worker serves inference; other requests go to Starlette."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        self._is_between = True  # the parser holds no part of an unfinished request
        self._was_read_again = False
        self._body_left = 0  # bytes still to come of a body that the parser does not see
        self._head = KnownHead()
        self._known_target = b""
        self.url, self.headers = b"", []

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        if self._body_left or self._is_ending:
            self._take_unparsed(data)
            return
        deadline, is_between = self._deadline, self._is_between
        if deadline.phase == HEAD and not deadline.head_bytes:
            if is_between and self._take_repeated(data):
                return
            deadline.await_head()
        deadline.head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("This is not a valid HTTP/1.1 request."))
            return
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        if deadline.phase == SERVING and not deadline.head_bytes:
            if is_between and self._is_between:
                self._learn_head(data)
            return
        if deadline.phase == BODY and self._check_length() and is_between:
            self._learn_head(data)
        if deadline.head_bytes > self._settings.header_bytes_max:
            # Too long a head, or too long chunk extensions or trailers of a body.
            self._refuse(HeadersTooLarge())

    # httptools

    def on_message_begin(self) -> None:
        # uvicorn builds an ASGI scope here; for hot requests it is never needed.
        self._is_between = False
        self.url, self.headers = b"", []
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser reports trailers here too; they must not be taken for headers.
        if self._deadline.phase != BODY:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        # The head's own bytes are counted only if all bytes read exceed the limit.
        most = self._settings.header_bytes_max
        is_long = self._deadline.head_bytes > most
        self._deadline.await_body(0)
        if is_long and request_heads.head_bytes(self.url, self.headers) > most:
            self._refuse_all(HeadersTooLarge())
        elif len(self.connections) > self._settings.connections_max:
            self._refuse_all(Overloaded(retry_after_seconds=1))
        elif self.parser.should_upgrade() and self._may_read_again():
            # The parser will raise where the head ends: no request begins until then.
            self._deadline.phase = HEAD
        elif is_inference(self.parser.get_method(), self.url):
            self._begin_exchange()
        elif request_heads.content_length(self.headers) > self._page_bytes_max():
            self._refuse_all(self._too_large())
        else:
            self._begin_page()

    def on_body(self, body: bytes) -> None:
        self._deadline.body_bytes += len(body)
        self._deadline.head_bytes = 0
        exchange = self._exchange()
        if exchange is None:
            if self._deadline.body_bytes > self._page_bytes_max():
                too_large = self._too_large()
                self._refuse_body(too_large)
                raise too_large
            super().on_body(body)
            self._hold_page_body(len(body))
            return
        refusal = None if exchange.response_complete else self._keep_body(exchange, body)
        if refusal is not None:
            self._refuse_all(refusal)

    def on_message_complete(self) -> None:
        if self._deadline.phase != BODY:
            return  # the request asks for another protocol, and will be parsed again
        self._deadline.await_nothing()
        self._is_between = True
        exchange = self._exchange()
        if exchange is None:
            super().on_message_complete()
            if self.cycle.response_complete:
                # The page answered from the head alone, before the body had come.
                self._deadline.phase = HEAD
                self._deadline.await_next()
            return
        exchange.end_body()
        # `_start_asgi_task` launches a request that waits behind another.
        if exchange.is_whole and not self.pipeline:
            self._launch(exchange)

    # uvicorn's seams

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        if not isinstance(cycle, Exchange):
            self._page = cycle
            super()._start_asgi_task(cycle, app)
            return
        if cycle.is_whole:
            self._launch(cycle)
        else:
            # Nothing was read while this request waited behind another: its time begins now.
            self._deadline.restart_body(0)

    def _begin_exchange(self) -> None:
        exchange = Exchange(self, self.url, self.headers)
        exchange.keep_alive = self.parser.should_keep_alive()
        exchange.speaks_chunked = self.parser.get_http_version() != "1.0"
        self._worker.note_caller(exchange)
        previous, self.cycle = self.cycle, cast(RequestResponseCycle, exchange)
        if previous is None or previous.response_complete:
            return
        self.flow.pause_reading()
        self.pipeline.appendleft((self.cycle, self.app))

    def _take_repeated(self, data: bytes) -> bool:
        """Begin a request whose head repeats the known one; return False if it must be parsed."""
        head, start = self._head, self._head.body_at(data)
        settings = self._settings
        if start < 0 or start > settings.header_bytes_max or len(data) > start + head.body_bytes:
            return False
        is_crowded = len(self.connections) > settings.connections_max
        if is_crowded or head.body_bytes > settings.body_bytes_max:
            return False
        exchange = Exchange(self, self._known_target, head.headers)
        self.cycle = cast(RequestResponseCycle, exchange)
        self._worker.note_caller(exchange)
        refusal = self._keep_body(exchange, data[start:])
        if refusal is not None:
            self._refuse(refusal)
        elif exchange.body_bytes == head.body_bytes:
            exchange.end_body()
            self._deadline.await_nothing()
            self._launch(exchange)
        else:
            self._deadline.await_body(exchange.body_bytes)
            self._body_left = head.body_bytes - exchange.body_bytes
        return True

    def _learn_head(self, data: bytes) -> None:
        """Remember the head of the request that this read began with, if only its body follows."""
        exchange = self._exchange()
        if exchange is None or not exchange.keep_alive:
            return
        length = request_heads.content_length(exchange.headers)
        if len(data) > data.find(b"\r\n\r\n") + 4 + length:
            return
        line = b"POST %s HTTP/1.1\r\n" % exchange.target
        if self._head.learn(data, exchange.headers, line):
            self._known_target = exchange.target

    def _begin_page(self) -> None:
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.url = url
        self.headers.extend(headers)
        self.expect_100_continue = request_heads.expects_continue(headers)
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._refuse_all(InvalidRequest("The request's target is not a valid URL."))

    def _may_read_again(self) -> bool:
        """Return whether a request that asks for an upgrade may be parsed again without it.

        Not CONNECT, which would be the same again; nor a request after the last one. Only once on
        a connection, as its last request: a read full of them must not be copied for each.
        """
        last = self.cycle
        is_after_last = last is not None and not last.response_complete and not last.keep_alive
        is_first = not self._was_read_again and not is_after_last
        return is_first and self.parser.get_method() != b"CONNECT"

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse a request again without its question for another protocol, as a server may."""
        if self._is_between:
            # The request was accepted as it is, without a body.
            self.cycle.keep_alive = False
            return
        self._was_read_again = True
        head = request_heads.without_upgrade(self.parser, self.url, self.headers)
        self.parser = request_heads.new_parser(self)
        self.data_received(head + rest)

    def _page_bytes_max(self) -> int:
        return request_heads.page_bytes_max(self.url, self._settings)

    def _check_length(self) -> bool:
        """Check a body's length once, when its head has ended; refuse one too long, unread."""
        exchange = self._exchange()
        if exchange is None or exchange.is_length_checked or exchange.response_complete:
            return False
        exchange.is_length_checked = True
        length = request_heads.content_length(exchange.headers)
        if length > self._settings.body_bytes_max:
            self._refuse(self._too_large())
            return False
        if length - exchange.body_bytes >= LONG_BYTES:
            self._body_left = length - exchange.body_bytes
        if not self.pipeline and request_heads.expects_continue(exchange.headers):
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _take_unparsed(self, data: bytes) -> None:
        """Take a part of a body that the parser does not see, and what follows the body."""
        if self._is_ending:
            self._drop(data)
            return
        exchange = self._exchange()
        if exchange is None or exchange.response_complete:
            # The request was refused: the rest of its body is ignored.
            return
        part = data if len(data) <= self._body_left else data[: self._body_left]
        self._body_left -= len(part)
        self._deadline.body_bytes += len(part)
        refusal = self._keep_body(exchange, part)
        if refusal is not None:
            self._refuse(refusal)
            return
        if self._body_left:
            return
        if not self._is_between:
            # The old parser still waits for the body that bypassed it.
            self.parser = request_heads.new_parser(self)
        self.on_message_complete()
        if len(data) > len(part) and not self.transport.is_closing():
            self.data_received(data[len(part) :])

    def _keep_body(self, exchange: Exchange, part: bytes) -> Error | None:
        """Add a part to a request's body; return an error if it exceeds a limit."""
        exchange.add_body(part)
        if exchange.body_bytes + len(part) > self._settings.body_bytes_max:
            return self._too_large()
        return self._worker.body_budget.hold(exchange, len(part))

    def _too_large(self) -> Error:
        return BodyTooLarge(f"The body is over {self._settings.body_bytes_max} bytes.")

    def _hold_page_body(self, count: int) -> None:
        """Count the page bodies that uvicorn buffers: for each, one read more than 64 KB."""
        if self.cycle.response_complete:
            return
        held = self._page_body
        if held is None:
            account = self._worker.account_of(CallerHeaders(self.headers))
            held = self._page_body = HeldBody(account)
        if not self.pipeline:
            # The page reads its body as it comes: only what is buffered now counts.
            self._worker.body_budget.release(held)
            count = len(self.cycle.body)
        refusal = self._worker.body_budget.hold(held, count)
        if refusal is not None:
            self._refuse_all(refusal)

    def _launch(self, exchange: Exchange) -> None:
        self._served = exchange
        exchange.is_full = self._deadline.is_unread
        # No TaskGroup: uvicorn waits for the tasks in `self.tasks` when it drains, and cancels
        # those that are late.
        task = exchange.task = self.loop.create_task(self._worker.serve(exchange), name="request")
        for tasks in (self.tasks, self._worker.tasks):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
