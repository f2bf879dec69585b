"""A client's connection: uvicorn's protocol, with the limits it lacks.

Unchanged, uvicorn took 100 MB of headers and waited for ever for the rest of a request. Here each
step of a client has a time limit; a client that does not read is not read from either, and then
dropped; and a refused client gets the reason before the connection closes.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from penstock.errors import BodyTooSlow, Error
from penstock.ingress.http.client_deadline import BODY, HEAD, SERVING, ClientDeadline
from penstock.ingress.http.exchange import Exchange
from penstock.ingress.http.lingering import Lingering, reset

if TYPE_CHECKING:
    from penstock.ingress.http.body_budget import HeldBody
    from penstock.ingress.http.worker_connections import WorkerConnections


class BoundedConnection(HttpToolsProtocol):
    """Opens, times, refuses and closes a connection; ClientProtocol reads its requests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        worker: WorkerConnections = self.app_state["worker"]
        self._worker, self._settings = worker, worker.settings
        self._deadline = ClientDeadline(
            worker.settings, worker.clock.monotonic, worker.wheel, self._on_deadline
        )
        self._is_held_up = False
        # Counts the page bodies that uvicorn buffers until the pages read them.
        self._page_body: HeldBody | None = None
        self._served: Exchange | None = None
        self._page: RequestResponseCycle | None = None
        self._lingering: Lingering | None = None
        # No further request is read: the connection closes when its requests are answered.
        self._is_ending = False
        self._dropped_bytes = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=self._worker.write_buffer_bytes)
        self._worker.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._worker.connections -= 1
        self._deadline.end()
        self._release_page_body()
        if self._lingering is not None:
            self._lingering.cancel()
        for cycle in (self._served, self.cycle, *(cycle for cycle, _ in self.pipeline)):
            # With pipelining, the request being served is older than the newest, `self.cycle`.
            if isinstance(cycle, Exchange):
                self._worker.leave(cycle)
        if self._page is not None:
            # uvicorn marks only the newest request; this page may be older, and about to write.
            self._page.disconnected = True
            self._page.message_event.set()
        super().connection_lost(exc)
        # These refer to their connection: all of it would live until garbage collection.
        self._served = self._page = None
        self.cycle = cast(RequestResponseCycle, None)  # as uvicorn begins

    def pause_writing(self) -> None:
        super().pause_writing()
        self._deadline.await_reader()
        # Stop reading from a client that does not read: its next answers would pile up too.
        self.flow.pause_reading()
        if self._served is not None:
            self._served.fill()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._deadline.has_read()
        if self.transport.is_closing():
            return
        self._deadline.await_next()
        if self._served is not None:
            self._served.drain()
        if self._is_held_up:
            self._go_on()
        elif not self.pipeline:
            self.flow.resume_reading()

    def shutdown(self) -> None:
        self._worker.on_drain()
        super().shutdown()

    # uvicorn's seams

    def on_response_complete(self) -> None:
        """Do what uvicorn's method does, with the idle time on the connection's one timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._linger()
            return
        if not self.pipeline:
            self._release_page_body()
        deadline = self._deadline
        if deadline.phase == SERVING and self.cycle.response_complete:
            deadline.phase = HEAD
        if deadline.is_unread:
            self._is_held_up = True
        else:
            self._go_on()

    def _go_on(self) -> None:
        """After an answer, start the next pipelined request, or resume reading."""
        self._is_held_up = False
        if self._deadline.phase == HEAD:
            self._deadline.await_next()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if not self.pipeline:
            # While requests are queued, each answer would let in another read full of them.
            self.flow.resume_reading()

    def date_header(self) -> bytes:
        """Return the date line, which uvicorn renders once a second."""
        return self._worker.render_default_headers(self.server_state.default_headers)

    def _exchange(self) -> Exchange | None:
        """Return the newest request on this connection, if it is an inference request."""
        cycle: object = self.cycle
        return cycle if isinstance(cycle, Exchange) else None

    def _on_deadline(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        deadline = self._deadline
        if deadline.is_unread:
            reset(self.transport)
        elif deadline.phase == HEAD and not deadline.head_bytes:
            self._close()  # idle, or it never sent anything
        elif deadline.phase == HEAD:
            self._refuse(BodyTooSlow("The request's headers came too slowly."))
        elif (
            deadline.phase == BODY
            and not self.pipeline
            and deadline.is_body_too_slow(is_read=not self.flow.read_paused)
        ):
            self._refuse_body(BodyTooSlow())
        else:
            deadline.renew(self._worker.wheel, self._on_deadline)

    def _refuse(self, error: Error) -> None:
        """Answer with the error and close: further bytes cannot be trusted to be a request.

        If complete requests came before, they are answered instead: the client could not tell
        which of them the refusal is for.
        """
        newest, exchange = self.cycle, self._exchange()
        if self.transport.is_closing() or self._is_ending:
            return
        if newest is None or newest.response_complete:
            self._answer_refusal(Exchange(self, self.url, self.headers), error)
        elif _is_whole(newest):
            self._end_after(newest)
        elif self.pipeline and self.pipeline[0][0] is newest:
            self._drop_newest()
        elif exchange is not None:
            self._answer_refusal(exchange, error)
        elif newest.response_started:
            self._close()
        else:
            # This page waits for the rest of its body; disconnected, it writes nothing more.
            newest.disconnected = True
            newest.message_event.set()
            self._answer_refusal(Exchange(self, self.url, self.headers), error)

    def _refuse_body(self, error: Error) -> None:
        """Refuse the rest of the newest request's body; only close if it is answered already.

        A page may answer from the head alone. The client would take a second answer for that of
        its next request.
        """
        if self.cycle.response_complete:
            self._close()
        else:
            self._refuse(error)

    def _answer_refusal(self, exchange: Exchange, error: Error) -> None:
        self._worker.drop_body(exchange)
        exchange.keep_alive = False
        self._worker.refuse(exchange, error)

    def _drop_newest(self) -> None:
        """Drop the newest request, which waits behind others and will never be complete."""
        self.pipeline.popleft()
        exchange = self._exchange()
        if exchange is not None:
            self._worker.drop_body(exchange)
        cycles = [self.pipeline[0][0]] if self.pipeline else [self._served, self._page]
        for cycle in cycles:
            if cycle is not None and not cycle.response_complete:
                self.cycle = cast(RequestResponseCycle, cycle)
                self._end_after(self.cycle)

    def _end_after(self, last: RequestResponseCycle) -> None:
        """Answer the requests up to `last`, then close; read no further request."""
        last.keep_alive = False
        self._is_ending = True

    def _drop(self, data: bytes) -> None:
        """Discard bytes after the last request; reading goes on to notice a disconnect.

        A client that sends more than `header_bytes_max` of them is disconnected.
        """
        self._dropped_bytes += len(data)
        if self._dropped_bytes > self._settings.header_bytes_max:
            self._close()

    def _refuse_all(self, error: Error) -> None:
        """Refuse from within the parser, and raise to stop it: it skips the rest of this read."""
        self._refuse(error)
        raise error

    def _release_page_body(self) -> None:
        """Stop counting the bodies of pages, and drop what no page has read."""
        held, self._page_body = self._page_body, None
        if held is None:
            return
        self._worker.body_budget.release(held)
        if self._page is not None:
            self._page.body.clear()

    def _close(self) -> None:
        self.transport.close()
        self._linger()

    def _linger(self) -> None:
        self._deadline.end()
        if self._lingering is None:
            seconds = self._settings.client_stall_seconds
            self._lingering = Lingering(self.transport, self._worker.wheel, seconds)


def _is_whole(cycle: object) -> bool:
    """Return whether all of a request has arrived."""
    if isinstance(cycle, Exchange):
        return cycle.is_whole or cycle.is_started
    assert isinstance(cycle, RequestResponseCycle), "a connection has cycles of these two kinds"
    return not cycle.more_body
