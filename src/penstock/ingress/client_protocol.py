"""A client's connection: uvicorn's HTTP protocol, with the limits that it lacks and a straight way to the hot paths.

As it comes, uvicorn took 100 MB of headers and waited for ever for the rest of a request. Here
headers have a size and a time, a body has a size and a least rate, and a client that does not read
its stream is dropped.
"""

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from penstock.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Error,
    HeadersTooLarge,
    InvalidRequest,
    Overloaded,
)
from penstock.ingress.exchange import Exchange
from penstock.ingress.routes import is_hot

if TYPE_CHECKING:
    from penstock.ingress.hot import HotDoor

_BODY_GRACE_SECONDS: Final = 5.0
_FOREVER: Final = 1e9
_CONTENT_LENGTH: Final = b"content-length"


class _Phase(Enum):
    HEAD = auto()
    BODY = auto()
    SERVING = auto()


class ClientProtocol(HttpToolsProtocol):
    """One per connection. `door` serves hot requests; all others go through uvicorn to Starlette."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        self._door: HotDoor = self.app_state["door"]
        self._settings = self._door.settings
        self._phase = _Phase.HEAD
        self._head_bytes = 0
        self._body_started = 0.0
        self._full_since = 0.0
        self._timer = self._door.wheel.after(self._settings.header_seconds, self._on_timer)
        self.url = b""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=self._door.write_buffer_bytes)
        self._door.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections -= 1
        self._timer.cancel()
        for cycle in self._open_exchanges():
            self._forget_body(cycle)
            cycle.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._phase is _Phase.HEAD:
            if not self._head_bytes:
                # The first byte of a request; an idle connection was under keep-alive's own clock.
                self._timer.deadline = self._door.clock.monotonic() + self._settings.header_seconds
            self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("This is not a valid HTTP/1.1 request."))
            return
        except httptools.HttpParserUpgrade:
            self._refuse(InvalidRequest("This server does not upgrade connections."))
            return
        if self._phase is _Phase.HEAD and self._head_bytes > self._settings.header_bytes_max:
            self._refuse(HeadersTooLarge())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full_since = self._door.clock.monotonic()
        self._timer.deadline = self._full_since + self._settings.client_stall_seconds
        if (exchange := self._exchange()) is not None:
            exchange.fill()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full_since = 0.0
        self._timer.deadline = self._door.clock.monotonic() + _FOREVER
        if (exchange := self._exchange()) is not None:
            exchange.drain()

    # httptools

    def on_message_begin(self) -> None:
        # uvicorn builds an ASGI scope here; for hot requests it is never needed.
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        self._phase = _Phase.BODY
        self._body_started = self._door.clock.monotonic()
        self._timer.deadline = self._body_started + _BODY_GRACE_SECONDS
        size = len(self.url)
        for name, value in self.headers:
            size += len(name) + len(value)
        if size > self._settings.header_bytes_max:
            self._refuse(HeadersTooLarge())
        elif len(self.connections) > self._settings.connections_max:
            self._refuse(Overloaded(retry_after_seconds=1))
        elif is_hot(self.parser.get_method(), self.url):
            self._begin_exchange()
        else:
            self._begin_page()

    def on_body(self, body: bytes) -> None:
        cycle = self._exchange()
        if cycle is None:
            super().on_body(body)
            return
        if cycle.response_complete:
            return
        cycle.add_body(body)
        self._door.body_bytes += len(body)
        if cycle.body_bytes > self._settings.body_bytes_max:
            self._refuse(BodyTooLarge(f"The body is over {self._settings.body_bytes_max} bytes."))
        elif self._door.body_bytes > self._settings.bodies_bytes_max:
            self._refuse(Overloaded(retry_after_seconds=1))

    def on_message_complete(self) -> None:
        self._phase = _Phase.SERVING
        self._timer.deadline = self._door.clock.monotonic() + _FOREVER
        cycle = self._exchange()
        if cycle is None:
            super().on_message_complete()
            return
        cycle.is_whole = True
        if cycle.is_active and not cycle.response_complete:
            self._launch(cycle)

    def on_response_complete(self) -> None:
        if self._phase is _Phase.SERVING:
            self._phase = _Phase.HEAD
            self._head_bytes = 0
        super().on_response_complete()

    # uvicorn's seams

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        if not isinstance(cycle, Exchange):
            super()._start_asgi_task(cycle, app)
            return
        cycle.is_active = True
        if cycle.is_whole:
            self._launch(cycle)

    def date_header(self) -> bytes:
        """The date line, rendered once a second by uvicorn."""
        return self._door.render_default_headers(self.server_state.default_headers)

    def _begin_exchange(self) -> None:
        exchange = Exchange(self, self.url, self.headers)
        exchange.keep_alive = self.parser.should_keep_alive()
        exchange.speaks_chunked = self.parser.get_http_version() != "1.0"
        previous, self.cycle = self.cycle, cast("RequestResponseCycle", exchange)
        for name, value in self.headers:
            if name == _CONTENT_LENGTH and int(value) > self._settings.body_bytes_max:
                self._refuse(
                    BodyTooLarge(f"The body is over {self._settings.body_bytes_max} bytes.")
                )
                return
        if self.expect_100_continue:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if previous is None or previous.response_complete:
            exchange.is_active = True
            return
        self.flow.pause_reading()
        self.pipeline.appendleft((self.cycle, self.app))

    def _begin_page(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._refuse(InvalidRequest("The request's target is not a valid URL."))

    def _launch(self, exchange: Exchange) -> None:
        self._door.body_bytes -= exchange.body_bytes
        exchange.body_bytes = 0
        # One task per request, as uvicorn itself does: a TaskGroup costs 7.5 µs, and the set of tasks
        # is what uvicorn waits for when it drains.
        task = self.loop.create_task(self._door.serve(exchange))
        exchange.task = task
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _exchange(self) -> Exchange | None:
        """The newest request on this connection, if it is a hot one."""
        cycle: object = self.cycle
        return cycle if isinstance(cycle, Exchange) else None

    def _open_exchanges(self) -> list[Exchange]:
        cycles: list[object] = [self.cycle, *(cycle for cycle, _ in self.pipeline)]
        return [cycle for cycle in cycles if isinstance(cycle, Exchange)]

    def _forget_body(self, exchange: Exchange) -> None:
        self._door.body_bytes -= exchange.body_bytes
        exchange.body_bytes = 0

    def _on_timer(self) -> None:
        """The connection's one clock: what it means depends on what the client owes us."""
        now = self._door.clock.monotonic()
        if self.transport is None or self.transport.is_closing():
            return
        if self._full_since:
            self.transport.abort()
            return
        if self._phase is _Phase.HEAD and self._head_bytes:
            self._refuse(BodyTooSlow("The request's headers came too slowly."))
            return
        if self._phase is _Phase.HEAD and self.timeout_keep_alive_task is None:
            # Connected, and never said anything.
            self.transport.close()
            return
        wait = _FOREVER
        if self._phase is _Phase.BODY:
            exchange = self._exchange()
            least = (now - self._body_started) * self._settings.body_bytes_per_second_min
            if exchange is not None and exchange.body_bytes < least:
                self._refuse(BodyTooSlow())
                return
            wait = _BODY_GRACE_SECONDS
        self._timer = self._door.wheel.after(wait, self._on_timer)

    def _refuse(self, error: Error) -> None:
        """Answer and close: what else this client sends cannot be trusted to be a request."""
        exchange = self._exchange()
        if exchange is None or exchange.response_complete:
            if self.cycle is not None and not self.cycle.response_complete:
                self.transport.close()
                return
            exchange = Exchange(self, self.url, self.headers or [])
        self._forget_body(exchange)
        is_behind_another = bool(self.pipeline)
        if exchange.is_started or is_behind_another or self.transport.is_closing():
            self.transport.close()
            return
        exchange.keep_alive = False
        self._door.refuse(exchange, error)
