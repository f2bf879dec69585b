"""What a client owes us, how much of it has come, and how long it may take for the rest."""

from collections.abc import Callable
from typing import Final

from penstock.clock import TimerWheel
from penstock.ingress.settings import IngressSettings

_FOREVER: Final = 1e9
# A head, a body, or nothing while it is served. Not an Enum, whose members are looked up through
# their class each time: these are on the path of every read.
HEAD: Final = 0
BODY: Final = 1
SERVING: Final = 2


class ClientDeadline:
    """With one client, on one timer: what it means depends on what the client owes us.

    Who does not read its answers owes us that before all else: until it does, its time runs on,
    whatever else it sends.
    """

    def __init__(
        self,
        settings: IngressSettings,
        monotonic: Callable[[], float],
        wheel: TimerWheel,
        on_end: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._keep_alive_seconds = float(settings.keep_alive_seconds)
        self._monotonic = monotonic
        self._body_started = 0.0
        # When the body's rate was last looked at, and how much of the body had come by then.
        self._window_started = 0.0
        self._window_bytes = 0
        self.phase = HEAD
        # Of the head or the body that is coming.
        self.head_bytes = self.body_bytes = 0
        # More waits to be read by the client than the connection may hold.
        self.is_unread = False
        self._timer = wheel.after(settings.header_seconds, on_end)

    def await_head(self) -> None:
        """Its first bytes are here; until now the keep-alive time ran."""
        self._wait(self._settings.header_seconds)

    def await_body(self, count: int) -> None:
        """So much of it has come with the head."""
        self.phase = BODY
        self.head_bytes = 0
        self.restart_body(count)
        self._wait(self._settings.body_grace_seconds)

    def restart_body(self, count: int) -> None:
        """Its rate and its time count from here."""
        self.body_bytes = count
        self._body_started = self._window_started = self._monotonic()
        self._window_bytes = 0

    def await_nothing(self) -> None:
        """A request is whole."""
        self.phase, self.head_bytes = SERVING, 0
        if not self.is_unread:
            self._timer.deadline += _FOREVER

    def await_next(self) -> None:
        """An answer is out, or has been read. Half a head may have come meanwhile."""
        self._wait(self._seconds())

    def await_reader(self) -> None:
        """It does not read what it has asked for."""
        self._timer.deadline = self._monotonic() + self._settings.client_stall_seconds
        self.is_unread = True

    def has_read(self) -> None:
        self.is_unread = False

    def is_body_too_slow(self, *, is_read: bool) -> bool:
        """Look at the rate since the last look, and at the whole time; begins a new window.

        Not the rate since the body began: bytes that were sent at once would pay for hours of
        silence. `is_read` is False while this gateway does not read from the client: then the
        client is not to blame for the rate.
        """
        now, came = self._monotonic(), self.body_bytes - self._window_bytes
        needed = (now - self._window_started) * self._settings.body_bytes_per_second_min
        self._window_started, self._window_bytes = now, self.body_bytes
        if now - self._body_started > self._settings.body_seconds_max:
            return True
        return is_read and came < needed

    def renew(self, wheel: TimerWheel, on_end: Callable[[], None]) -> None:
        """The time is over, and was not overdrawn. Not kept here: they lead back to this client."""
        self._timer = wheel.after(self._seconds(), on_end)

    def end(self) -> None:
        self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        if not self.is_unread:
            self._timer.deadline = self._monotonic() + seconds

    def _seconds(self) -> float:
        if self.phase == SERVING:
            return _FOREVER
        if self.phase == BODY:
            return self._settings.body_grace_seconds
        return self._settings.header_seconds if self.head_bytes else self._keep_alive_seconds
