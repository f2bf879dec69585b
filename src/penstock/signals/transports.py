"""Chooses the transports that carry messages: Unix datagrams, NATS, or both."""

from collections.abc import Callable
from typing import Protocol

from penstock.signals.counts import SignalCounts
from penstock.signals.local import LocalSockets
from penstock.signals.settings import SignalsSettings


class Transport(Protocol):
    """Carries sealed messages to peers. May lose some; never waits, never raises."""

    @property
    def is_up(self) -> bool: ...

    async def run(self, hear: Callable[[bytes], None]) -> None: ...

    def send(self, data: bytes) -> bool:
        """Send; return True if the peers are unchanged and all of them surely have the message."""
        ...


def make_transports(
    settings: SignalsSettings, mark: str, sender: int, counts: SignalCounts
) -> tuple[Transport, ...]:
    """Return the transports; the one with the longest reach comes last.

    With NATS the workers of one host also use their sockets, so they still reach each other when
    NATS is unreachable; a message that arrives twice is dropped by its number.
    """
    if settings.transport == "off":
        return ()
    local = LocalSockets(settings, mark, sender, counts)
    if settings.transport == "local":
        return (local,)
    # Imported only if used, because the client takes two megabytes in every worker.
    from penstock.signals.nats import NatsLine  # noqa: PLC0415 - see above

    return (local, NatsLine(settings, mark, counts))
