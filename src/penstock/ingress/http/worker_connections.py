"""The state that one worker's client connections share; base class of the inference endpoint."""

from typing import TYPE_CHECKING

from penstock.clock import Clock, TimerWheel
from penstock.errors import Error
from penstock.ingress.http.body_budget import BodyBudget
from penstock.ingress.http.exchange import Exchange
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class WorkerConnections:
    """One per worker. A subclass serves the exchanges that connections hand to it."""

    def __init__(self, settings: IngressSettings, wheel: TimerWheel, clock: Clock) -> None:
        self.settings = settings
        self.wheel = wheel
        self.clock = clock
        self.write_buffer_bytes = 256 * 1024
        self.connections = 0
        # Counts the request bodies that all connections hold together.
        self.body_budget = BodyBudget(settings)
        # The tasks of the requests that this worker serves.
        self.tasks: set[asyncio.Task[None]] = set()
        # Called once for each connection when this worker stops taking new requests.
        self.on_drain: Callable[[], None] = lambda: None
        self._default_headers: tuple[object, bytes] = (None, b"")

    async def serve(self, exchange: Exchange) -> None:
        """Serve one request until it is answered, has failed or was cancelled."""
        raise NotImplementedError

    def refuse(self, exchange: Exchange, error: Error) -> None:
        """Answer a request that could not be read."""
        raise NotImplementedError

    def account_of(self, headers: CallerHeaders) -> str:
        """Return the account of a key that this worker knows, else ""; without any I/O."""
        raise NotImplementedError

    def abort(self) -> None:
        """Cancel all requests, as uvicorn does when `drain_seconds` have passed."""
        for task in self.tasks:
            task.cancel()

    def note_caller(self, exchange: Exchange) -> None:
        """Set the exchange's account before its body comes, if this worker knows the key."""
        exchange.account = self.account_of(exchange.caller)

    def drop_body(self, exchange: Exchange) -> None:
        """Free an unread body, such as one sent with an unknown key."""
        self.body_budget.release(exchange)
        exchange.drop_body()

    def leave(self, exchange: Exchange) -> None:
        """Stop what runs for a client that has disconnected."""
        self.body_budget.release(exchange)
        exchange.leave()

    def render_default_headers(self, default_headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the date line, rendered again when uvicorn renews this list, once a second."""
        if self._default_headers[0] is not default_headers:
            lines = b"".join(b"%s: %s\r\n" % pair for pair in default_headers)
            self._default_headers = (default_headers, lines)
        return self._default_headers[1]
