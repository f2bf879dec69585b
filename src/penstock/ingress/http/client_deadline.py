"""Tracks what a client must send or read next, how much has come, and the time for the rest."""

from collections.abc import Callable
from typing import Final

from penstock.clock import TimerWheel
from penstock.ingress.settings import IngressSettings

_FOREVER: Final = 1e9
# The client owes a head, a body, or nothing while it is served. Not an Enum, because each use of a
# member is a lookup in its class, and every read uses these.
HEAD: Final = 0
BODY: Final = 1
SERVING: Final = 2


class ClientDeadline:
    """The one timer of one client; what its expiry means depends on what the client owes.

    A client that does not read its answers must do so first: until it does, its time runs on,
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
        # When the body's rate was last checked, and how much of the body had come by then.
        self._window_started = 0.0
        self._window_bytes = 0
        self.phase = HEAD
        # Bytes received of the current head or body.
        self.head_bytes = self.body_bytes = 0
        # The client has left more unread than the connection's write buffer may hold.
        self.is_unread = False
        self._timer = wheel.after(settings.header_seconds, on_end)

    def await_head(self) -> None:
        """Start the time for a head, whose first bytes end the keep-alive time."""
        self._wait(self._settings.header_seconds)

    def await_body(self, count: int) -> None:
        """Start the time for a body, of which `count` bytes came with the head."""
        self.phase = BODY
        self.head_bytes = 0
        self.restart_body(count)
        self._wait(self._settings.body_grace_seconds)

    def restart_body(self, count: int) -> None:
        """Measure the body's rate and total time from now."""
        self.body_bytes = count
        self._body_started = self._window_started = self._monotonic()
        self._window_bytes = 0

    def await_nothing(self) -> None:
        """Stop the time: the request is complete."""
        self.phase, self.head_bytes = SERVING, 0
        if not self.is_unread:
            self._timer.deadline += _FOREVER

    def await_next(self) -> None:
        """Restart the time after an answer was sent or read; half a head may have come since."""
        self._wait(self._seconds())

    def await_reader(self) -> None:
        """Start the stall time: the client does not read its answer."""
        self._timer.deadline = self._monotonic() + self._settings.client_stall_seconds
        self.is_unread = True

    def has_read(self) -> None:
        self.is_unread = False

    def is_body_too_slow(self, *, is_read: bool) -> bool:
        """Check the rate since the last check, and the total time; begin a new window.

        Not the rate since the body began: bytes sent in one burst would excuse hours of silence.
        `is_read` is False while this gateway does not read from the client: then the client is not
        to blame for the rate.
        """
        now, came = self._monotonic(), self.body_bytes - self._window_bytes
        needed = (now - self._window_started) * self._settings.body_bytes_per_second_min
        self._window_started, self._window_bytes = now, self.body_bytes
        if now - self._body_started > self._settings.body_seconds_max:
            return True
        return is_read and came < needed

    def renew(self, wheel: TimerWheel, on_end: Callable[[], None]) -> None:
        """Arm a new timer. The arguments are not stored: they refer back to this connection."""
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
