"""A client's connection: uvicorn's protocol, with the limits it lacks and a way to the hot paths.

As it comes, uvicorn took 100 MB of headers and waited for ever for the rest of a request. Here a
head has a size and a time, a body a size and a least rate, and who does not read is dropped.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from penstock.engine.running import Run
from penstock.errors import BodyTooSlow, Error, HeadersTooLarge, InvalidRequest, Overloaded
from penstock.ingress import request_heads
from penstock.ingress.body_reader import LONG_BYTES, BodyReader
from penstock.ingress.exchange import Exchange
from penstock.ingress.lingering import Lingering
from penstock.ingress.patience import BODY, FOREVER, HEAD, SERVING, is_too_slow, patience
from penstock.ingress.repeated_head import RepeatedHead
from penstock.ingress.routes import is_hot, page_bytes_max

if TYPE_CHECKING:
    from penstock.ingress.hot import HotDoor


class ClientProtocol(HttpToolsProtocol):
    """One per connection. `door` serves hot requests; others go on to Starlette."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        door: HotDoor = self.app_state["door"]
        self._door, self._settings = door, door.settings
        self._monotonic = door.clock.monotonic
        self._phase, self._is_held_up = HEAD, False
        self._is_between = True  # the parser has nothing of a request that has not ended
        self._head = RepeatedHead()
        self._head_bytes = self._body_bytes = 0
        self._body_started = self._full_since = 0.0
        self._body_reader: BodyReader | None = None  # most connections have no long body
        self._served: Exchange | None = None
        self._page: RequestResponseCycle | None = None
        self._timer = door.wheel.after(self._settings.header_seconds, self._on_timer)
        self._lingering: Lingering | None = None
        self.url, self.headers = b"", []

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=self._door.write_buffer_bytes)
        self._door.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections -= 1
        self._timer.cancel()
        if self._body_reader is not None:
            self._body_reader.drop()
        if self._lingering is not None:
            self._lingering.cancel()
        for cycle in (self._served, self.cycle, *(cycle for cycle, _ in self.pipeline)):
            # With pipelining, the one that is served is older than the newest.
            if isinstance(cycle, Exchange):
                self._door.leave(cycle)
        if self._page is not None:
            # uvicorn tells the newest request only; this one may be older, and about to write.
            self._page.disconnected = True
            self._page.message_event.set()
        super().connection_lost(exc)
        # These know their connection: all of it would wait until garbage is collected.
        self._served = self._page = self._body_reader = None
        self.cycle = cast(RequestResponseCycle, None)  # as uvicorn begins

    def data_received(self, data: bytes) -> None:
        if self._body_reader is not None and self._body_reader.left:
            self._body_reader.take(data)
            return
        is_between = self._is_between
        if self._phase == HEAD and not self._head_bytes:
            if is_between and self._take_repeated(data):
                return
            # The first bytes of a request; until now the keep-alive time ran.
            self._wait_until(self._monotonic() + self._settings.header_seconds)
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("This is not a valid HTTP/1.1 request."))
            return
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        if self._phase == SERVING and not self._head_bytes:
            if is_between and self._is_between:
                self._head.learn(data, self._exchange())
            return
        if self._phase == BODY and self._check_length() and is_between:
            self._head.learn(data, self._exchange())
        if self._head_bytes > self._settings.header_bytes_max:
            # A head without end, or a body's chunk extensions or trailers, which are as long.
            self._refuse(HeadersTooLarge())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full_since = self._monotonic()
        self._timer.deadline = self._full_since + self._settings.client_stall_seconds
        # Who does not read is not read from either: the next answers would pile up as well.
        self.flow.pause_reading()
        if self._served is not None:
            self._served.fill()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full_since = 0.0
        if self.transport.is_closing():
            return
        self._timer.deadline = self._monotonic() + self._patience()
        if self._served is not None:
            self._served.drain()
        if self._is_held_up:
            self._go_on()
        elif not self.pipeline:
            self.flow.resume_reading()

    def shutdown(self) -> None:
        self._door.on_drain()
        super().shutdown()

    # httptools

    def on_message_begin(self) -> None:
        # uvicorn builds an ASGI scope here; for hot requests it is never needed.
        self._is_between = False
        self.url, self.headers = b"", []
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come the same way, and must not pass for headers.
        if self._phase != BODY:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        # A head that came with few enough bytes around it needs no counting.
        most = self._settings.header_bytes_max
        is_long = self._head_bytes > most
        self._await_body(0)
        if is_long and request_heads.head_bytes(self.url, self.headers) > most:
            self._refuse_all(HeadersTooLarge())
        elif len(self.connections) > self._settings.connections_max:
            self._refuse_all(Overloaded(retry_after_seconds=1))
        elif is_hot(self.parser.get_method(), self.url):
            self._begin_exchange()
        else:
            self._begin_page()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._head_bytes = 0
        exchange = self._exchange()
        if exchange is None:
            if self._body_bytes > page_bytes_max(self.url, self._settings):
                self._refuse_all(self._door.too_large())
            super().on_body(body)
            return
        refusal = None if exchange.response_complete else self._door.keep_body(exchange, body)
        if refusal is not None:
            self._refuse_all(refusal)

    def on_message_complete(self) -> None:
        self._phase, self._head_bytes, self._is_between = SERVING, 0, True
        self._wait_until(self._body_started + FOREVER)
        exchange = self._exchange()
        if exchange is None:
            super().on_message_complete()
            if self.cycle.response_complete:
                # A page answers by its head alone: the body came after the answer.
                self._phase = HEAD
                self._wait_until(self._monotonic() + self._patience())
            return
        exchange.is_whole = True
        if exchange.is_active and not exchange.response_complete:
            self._launch_later(exchange)

    # uvicorn's seams

    def on_response_complete(self) -> None:
        """uvicorn's own, but that the idle time runs on our one timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._linger()
            return
        if self._phase == SERVING and self.cycle.response_complete:
            self._phase = HEAD
        if self._full_since:
            self._is_held_up = True
        else:
            self._go_on()

    def _go_on(self) -> None:
        """An answer is out: begin what came behind it, or read on."""
        self._is_held_up = False
        if self._phase == HEAD:
            self._timer.deadline = self._monotonic() + self._patience()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if not self.pipeline:
            # Not before: each answer would let in another read full of requests.
            self.flow.resume_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        if not isinstance(cycle, Exchange):
            self._page = cycle
            super()._start_asgi_task(cycle, app)
            return
        cycle.is_active = True
        if cycle.is_whole:
            self._launch_later(cycle)
        else:
            # Nothing was read while it was behind another request: its time begins now.
            self._body_started, self._body_bytes = self._monotonic(), 0

    def date_header(self) -> bytes:
        """The date line, rendered once a second by uvicorn."""
        return self._door.render_default_headers(self.server_state.default_headers)

    def _begin_exchange(self) -> None:
        exchange = Exchange(self, self.url, self.headers)
        exchange.keep_alive = self.parser.should_keep_alive()
        exchange.speaks_chunked = self.parser.get_http_version() != "1.0"
        previous, self.cycle = self.cycle, cast(RequestResponseCycle, exchange)
        if previous is None or previous.response_complete:
            exchange.is_active = True
            return
        self.flow.pause_reading()
        self.pipeline.appendleft((self.cycle, self.app))

    def _take_repeated(self, data: bytes) -> bool:
        """Begin a request with a head like the one before it; False if this is another one."""
        head, start = self._head, self._head.body_at(data)
        settings = self._settings
        if start < 0 or start > settings.header_bytes_max:
            return False
        is_crowded = len(self.connections) > settings.connections_max
        if is_crowded or head.body_bytes > settings.body_bytes_max:
            return False
        exchange = head.request_on(self)
        self.cycle = cast(RequestResponseCycle, exchange)
        refusal = self._door.keep_body(exchange, data[start:])
        if refusal is not None:
            self._refuse(refusal)
        elif exchange.body_bytes == head.body_bytes:
            exchange.is_whole = True
            self._phase = SERVING
            self._timer.deadline += FOREVER
            self._launch(exchange).start()
        else:
            self._await_body(exchange.body_bytes)
            self._long_bodies().begin(exchange, head.body_bytes)
        return True

    def _await_body(self, count: int) -> None:
        """So much of it has come with the head."""
        self._phase = BODY
        self._head_bytes, self._body_bytes = 0, count
        self._body_started = self._monotonic()
        self._wait_until(self._body_started + self._settings.body_grace_seconds)

    def _wait_until(self, deadline: float) -> None:
        # While it does not read its answers, that time runs on, whatever else it sends.
        if not self._full_since:
            self._timer.deadline = deadline

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

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read a request as if it had not asked for another protocol, as a server may."""
        exchange = self._exchange()
        if exchange is None or exchange.run is None:
            # A page, which needs no body; or one behind another request.
            self.cycle.keep_alive = False
            return
        # It has not begun to run: that would be in the loop's next turn.
        exchange.run.cancel()
        self._served = None
        self.cycle = cast(RequestResponseCycle, None)  # as uvicorn begins
        self._phase = HEAD
        method, self.parser = self.parser.get_method(), request_heads.new_parser(self)
        head = request_heads.without_upgrade(method, exchange.target, exchange.headers)
        self.data_received(head + rest)

    def _check_length(self) -> bool:
        """Once, after the read that ended the head: a body that is too long is refused unread."""
        exchange = self._exchange()
        if exchange is None or exchange.is_length_checked or exchange.response_complete:
            return False
        exchange.is_length_checked = True
        length = request_heads.content_length(exchange.headers)
        if length > self._settings.body_bytes_max:
            self._refuse(self._door.too_large())
            return False
        if length - exchange.body_bytes >= LONG_BYTES:
            self._long_bodies().begin(exchange, length)
        if exchange.is_active and request_heads.expects_continue(exchange.headers):
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def body_received(self, exchange: Exchange, count: int, *, is_whole: bool) -> None:
        """So many bytes of a body have come past the parser."""
        self._body_bytes += count
        refusal = self._door.count_body(exchange, count)
        if refusal is not None:
            self._refuse(refusal)
        elif is_whole:
            if not self._is_between:
                # This one still waits for that body.
                self.parser = request_heads.new_parser(self)
            self.on_message_complete()

    def _launch_later(self, exchange: Exchange) -> None:
        """Not within the parser, which may yet find an upgrade, nor within the answer before."""
        self.loop.call_soon(self._launch(exchange).start)

    def _launch(self, exchange: Exchange) -> Run:
        if exchange.body_bytes >= LONG_BYTES:
            # The next one on this connection will be as long.
            self._long_bodies().read_next()
        self._served = exchange
        exchange.is_full = self._full_since > 0
        return self._door.launch(exchange, cast("set[Run]", self.tasks), self.loop)

    def _long_bodies(self) -> BodyReader:
        self._body_reader = self._body_reader or BodyReader(self, self._door)
        return self._body_reader

    def _exchange(self) -> Exchange | None:
        """The newest request on this connection, if it is a hot one."""
        cycle: object = self.cycle
        return cycle if isinstance(cycle, Exchange) else None

    def _on_timer(self) -> None:
        """The connection's one clock: what it means depends on what the client owes us."""
        if self.transport is None or self.transport.is_closing():
            return
        if self._full_since:
            self.transport.abort()
        elif self._phase == HEAD and not self._head_bytes:
            self._close()  # idle, or it never said anything
        elif self._phase == HEAD:
            self._refuse(BodyTooSlow("The request's headers came too slowly."))
        elif (self._phase == BODY and not self.pipeline) and is_too_slow(
            self._settings, self._body_bytes, self._monotonic() - self._body_started
        ):
            self._refuse(BodyTooSlow())
        else:
            self._timer = self._door.wheel.after(self._patience(), self._on_timer)

    def _patience(self) -> float:
        return patience(self._settings, self._phase, is_head_begun=self._head_bytes > 0)

    def _refuse(self, error: Error) -> None:
        """Answer and close: what else this client sends cannot be trusted to be a request."""
        exchange = self._exchange()
        if exchange is None or exchange.response_complete:
            if self.cycle is not None and not self.cycle.response_complete:
                self._close()
                return
            exchange = Exchange(self, self.url, self.headers)
        if self._body_reader is not None:
            self._body_reader.drop()
        self._door.forget_body(exchange)
        if exchange.run is not None or self.pipeline or self.transport.is_closing():
            # A request before this one is being served: its answer cannot be told from a refusal.
            self._close()
            return
        exchange.keep_alive = False
        self._door.refuse(exchange, error)

    def _refuse_all(self, error: Error) -> None:
        """Refuse from within the parser, and stop it: what follows in this read is not read."""
        self._refuse(error)
        raise error

    def _close(self) -> None:
        self.transport.close()
        self._linger()

    def _linger(self) -> None:
        self._timer.cancel()
        if self._lingering is None:
            seconds = self._settings.client_stall_seconds
            self._lingering = Lingering(self.transport, self._door.wheel, seconds)
