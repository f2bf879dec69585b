"""A gateway's connection to a sandbox host: uvicorn's protocol, with the limits it lacks.

A head has a size and a time, a client that reads nothing is dropped, and connections have a number.
The time for a body is the application's.
"""

import asyncio
from typing import Any, Final

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.sandbox.settings import SandboxSettings
from penstock.wire.resources.sandbox import SandboxRefusal

_TOO_LARGE: Final = b"431 Request Header Fields Too Large"
_MALFORMED: Final = b"400 Bad Request"


class SandboxConnection(HttpToolsProtocol):
    """One per connection. `settings` come by the state of the application."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        self._bounds = self.app_state["settings"]
        assert isinstance(self._bounds, SandboxSettings)
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        # The next bytes belong to a head; so many of it have come.
        self._is_in_head = True
        self._head_bytes = self._trailer_bytes = 0
        self._status = _MALFORMED

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > 2 * self._bounds.connections_max:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._timer is None:
                self._await_head()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("The request is not valid HTTP/1.1, or its head is too long.")
            return
        except httptools.HttpParserUpgrade:
            # No other protocol is spoken: the answer to this request is the connection's last.
            self.cycle.keep_alive = False
            return
        if self._is_in_head and self._head_bytes > self._bounds.header_bytes_max:
            self._status = _TOO_LARGE
            self.send_400_response("The head is too long.")

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self._bounds.client_stall_seconds
        self._stall = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser reports trailers here too; they must not be taken for headers.
        if self._is_in_head:
            super().on_header(name, value)
            return
        self._trailer_bytes += len(name) + len(value)
        if self._trailer_bytes > self._bounds.header_bytes_max:
            raise ValueError("the trailers are too long")

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._bounds.header_bytes_max:
            self._status = _TOO_LARGE
            raise ValueError("the head is too long")
        self._is_in_head = False
        self._head_bytes = self._trailer_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = True
        super().on_message_complete()

    # uvicorn's seams

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, and close."""
        self._end_timers()
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            body = msgspec.json.encode(SandboxRefusal("malformed", msg))
            self.transport.write(
                b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b" % (self._status, len(body), body)
            )
        self.transport.close()

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self._bounds.header_seconds, self._on_late)

    def _on_late(self) -> None:
        """Close a connection on which no whole head has come, unless it is being answered."""
        self._timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        elif not self.transport.is_closing():
            self._await_head()

    def _end_timers(self) -> None:
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        self._timer = self._stall = None
