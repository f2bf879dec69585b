"""What the client connections of one worker share, and the base class of what serves requests."""

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
        # Called when this worker takes nothing new: once for each of its connections.
        self.on_drain: Callable[[], None] = lambda: None
        self._default_headers: tuple[object, bytes] = (None, b"")

    async def serve(self, exchange: Exchange) -> None:
        """Serve one request to its end, whatever that is."""
        raise NotImplementedError

    def refuse(self, exchange: Exchange, error: Error) -> None:
        """Answer a request that could not be read."""
        raise NotImplementedError

    def account_of(self, headers: CallerHeaders) -> str:
        """The account of a key that this worker knows; "" for all others. Asks nobody."""
        raise NotImplementedError

    def abort(self) -> None:
        """Cancel all requests, as uvicorn does when `drain_seconds` have passed."""
        for task in self.tasks:
            task.cancel()

    def note_caller(self, exchange: Exchange) -> None:
        """Find the account whose body is about to come, if this worker knows the key."""
        caller = exchange.caller
        if caller is None:
            caller = exchange.caller = CallerHeaders(exchange.headers)
        exchange.account = self.account_of(caller)

    def drop_body(self, exchange: Exchange) -> None:
        """Free a body that nobody has taken, such as one of a key that is not known."""
        self.body_budget.release(exchange)
        exchange.drop_body()

    def leave(self, exchange: Exchange) -> None:
        """Stop what runs for a client that has disconnected."""
        self.body_budget.release(exchange)
        exchange.leave()

    def render_default_headers(self, default_headers: list[tuple[bytes, bytes]]) -> bytes:
        """The date line. uvicorn renews this list once a second, and it is rendered as often."""
        if self._default_headers[0] is not default_headers:
            lines = b"".join(b"%s: %s\r\n" % pair for pair in default_headers)
            self._default_headers = (default_headers, lines)
        return self._default_headers[1]
