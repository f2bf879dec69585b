"""The seam between what is said and how it travels: Unix datagrams, NATS, or both."""

from collections.abc import Callable
from typing import Protocol

from penstock.signals.counts import SignalCounts
from penstock.signals.local import LocalSockets
from penstock.signals.settings import SignalsSettings


class Transport(Protocol):
    """Carries sealed messages to whoever listens. Loses some; never waits, never raises."""

    @property
    def is_up(self) -> bool: ...

    async def run(self, hear: Callable[[bytes], None]) -> None: ...

    def send(self, data: bytes) -> bool:
        """Whether it is sure that all have it who had the message before, and nobody is new."""
        ...


def make_transports(
    settings: SignalsSettings, mark: str, sender: int, counts: SignalCounts
) -> tuple[Transport, ...]:
    """The one that reaches furthest comes last.

    With NATS the workers of one host still have their sockets, and so hear each other when NATS is
    away; what arrives twice is dropped by its number.
    """
    if settings.transport == "off":
        return ()
    local = LocalSockets(settings, mark, sender, counts)
    if settings.transport == "local":
        return (local,)
    # Only where it is wanted: the client takes two megabytes of every worker.
    from penstock.signals.nats import NatsLine  # noqa: PLC0415 - see above

    return (local, NatsLine(settings, mark, counts))
