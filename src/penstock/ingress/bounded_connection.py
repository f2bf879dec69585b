"""A client's connection: uvicorn's protocol, with the limits it lacks.

As it comes, uvicorn took 100 MB of headers and waited for ever for the rest of a request. Here a
client has so much time for each thing that it owes us; who does not read is dropped, and not read
from either; and whoever is refused hears why before the connection ends.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from penstock.errors import BodyTooSlow, Error
from penstock.ingress.exchange import Exchange
from penstock.ingress.lingering import Lingering
from penstock.ingress.patience import BODY, HEAD, SERVING, Patience

if TYPE_CHECKING:
    from penstock.ingress.body_reader import BodyReader
    from penstock.ingress.hot import HotDoor


class BoundedConnection(HttpToolsProtocol):
    """How it lives and ends. What comes in on it is read by ClientProtocol."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        door: HotDoor = self.app_state["door"]
        self._door, self._settings = door, door.settings
        self._patience = Patience(
            door.settings, door.clock.monotonic, door.wheel, self._on_patience_end
        )
        self._is_held_up = False
        self._body_reader: BodyReader | None = None  # most connections have no long body
        self._served: Exchange | None = None
        self._page: RequestResponseCycle | None = None
        self._lingering: Lingering | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=self._door.write_buffer_bytes)
        self._door.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections -= 1
        self._patience.end()
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

    def pause_writing(self) -> None:
        super().pause_writing()
        self._patience.await_reader()
        # Who does not read is not read from either: the next answers would pile up as well.
        self.flow.pause_reading()
        if self._served is not None:
            self._served.fill()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._patience.has_read()
        if self.transport.is_closing():
            return
        self._patience.await_next()
        if self._served is not None:
            self._served.drain()
        if self._is_held_up:
            self._go_on()
        elif not self.pipeline:
            self.flow.resume_reading()

    def shutdown(self) -> None:
        self._door.on_drain()
        super().shutdown()

    # uvicorn's seams

    def on_response_complete(self) -> None:
        """uvicorn's own, but that the idle time runs on our one timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._linger()
            return
        patience = self._patience
        if patience.phase == SERVING and self.cycle.response_complete:
            patience.phase = HEAD
        if patience.is_unread:
            self._is_held_up = True
        else:
            self._go_on()

    def _go_on(self) -> None:
        """An answer is out: begin what came behind it, or read on."""
        self._is_held_up = False
        if self._patience.phase == HEAD:
            self._patience.await_next()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if not self.pipeline:
            # Not before: each answer would let in another read full of requests.
            self.flow.resume_reading()

    def date_header(self) -> bytes:
        """The date line, rendered once a second by uvicorn."""
        return self._door.render_default_headers(self.server_state.default_headers)

    def _exchange(self) -> Exchange | None:
        """The newest request on this connection, if it is a hot one."""
        cycle: object = self.cycle
        return cycle if isinstance(cycle, Exchange) else None

    def _on_patience_end(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        patience = self._patience
        if patience.is_unread:
            self.transport.abort()
        elif patience.phase == HEAD and not patience.head_bytes:
            self._close()  # idle, or it never said anything
        elif patience.phase == HEAD:
            self._refuse(BodyTooSlow("The request's headers came too slowly."))
        elif patience.phase == BODY and not self.pipeline and patience.is_body_too_slow():
            self._refuse(BodyTooSlow())
        else:
            patience.renew(self._door.wheel, self._on_patience_end)

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
        if exchange.task is not None or self.pipeline or self.transport.is_closing():
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
        self._patience.end()
        if self._lingering is None:
            seconds = self._settings.client_stall_seconds
            self._lingering = Lingering(self.transport, self._door.wheel, seconds)
