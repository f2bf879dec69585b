"""The loops that send and receive signals: a gateway worker's, and a keeper's.

No request waits for them, and no received message can end a loop.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from penstock.clock import Clock
from penstock.records.signal import EngineClaim, LoadClaim, PeerState, SentPrompt, Signal
from penstock.signals.counts import Drop, SignalCounts
from penstock.signals.envelope import Envelope
from penstock.signals.identity import Identity
from penstock.signals.load_table import LoadTable
from penstock.signals.peers import Peers
from penstock.signals.settings import SignalsSettings
from penstock.signals.speaker import Speaker
from penstock.signals.transports import make_transports

logger = logging.getLogger(__name__)


# Returns the claims of a keeper's engines at a given time.
Engines = Callable[[float], Sequence[EngineClaim]]


class CellKey(msgspec.Struct, frozen=True):
    """Identifies this installation's signals. `mark` is public, `key` is secret."""

    mark: str
    key: bytes

    def __repr__(self) -> str:
        return f"CellKey({self.mark!r})"


class LoadAnnouncement(Protocol):
    """A worker's requests in progress, and the prompts it sent since the last announcement."""

    @property
    def loads(self) -> Sequence[LoadClaim]: ...

    @property
    def sent(self) -> Sequence[SentPrompt]: ...


class Voice(Protocol):
    """Supplies the content of outgoing messages. Implemented by routing."""

    def tell(self, now: float) -> LoadAnnouncement: ...


class Ear(Protocol):
    """Consumes received messages and changes of peers. Implemented by routing."""

    def hear(self, signal: Signal, sent: Sequence[SentPrompt], now: float) -> None: ...

    def forget_peer(self, sender: int) -> None: ...

    def note_peers(self, state: PeerState) -> None: ...


class LoadRouter(Voice, Ear, Protocol):
    """Both a Voice and an Ear."""


class _Line:
    """Sends and receives one sender's messages on all its transports."""

    def __init__(
        self, identity: Identity, cell: CellKey, settings: SignalsSettings, clock: Clock
    ) -> None:
        self.counts = SignalCounts()
        self.envelope = Envelope(cell.key, settings.message_bytes_max)
        self.speaker = Speaker(identity, self.envelope, clock, self.counts)
        self._interval = settings.interval_seconds
        self._transports = make_transports(settings, cell.mark, identity.sender, self.counts)

    @property
    def is_up(self) -> bool:
        return bool(self._transports) and self._transports[-1].is_up

    def send(self, data: bytes) -> None:
        self.counts.sent += 1
        arrivals = [transport.send(data) for transport in self._transports]
        self.speaker.note_arrival(is_sure=all(arrivals))

    async def run(self, hear: Callable[[bytes], None], turn: Callable[[], None]) -> None:
        """Call `turn` every interval until cancelled, then send the sender's last message."""
        async with asyncio.TaskGroup() as group:
            for transport in self._transports:
                group.create_task(transport.run(hear))
            try:
                while True:
                    try:
                        turn()
                    except Exception:
                        # Catch everything at the loop's top: without signals a worker still serves.
                        self.counts.failures += 1
                        logger.exception("signal turn failed", extra={"action": "signals_failed"})
                    await asyncio.sleep(self._interval)
            finally:
                self.send(self.speaker.say_last())


class GossipLoops:
    """A gateway worker's loops: sends the router's loads, and passes it what peers send."""

    def __init__(
        self,
        identity: Identity,
        cell: CellKey,
        settings: SignalsSettings,
        clock: Clock,
        router: LoadRouter,
        table: LoadTable | None = None,
    ) -> None:
        self._line = _Line(identity, cell, settings, clock)
        self._clock = clock
        self._router = router
        self._table = table
        self.counts = self._line.counts
        self.peers = Peers(identity.sender, settings)
        self.state = PeerState.ALONE
        self._noted: tuple[PeerState, int] | None = None

    @property
    def is_up(self) -> bool:
        """Whether the transport that reaches furthest is connected."""
        return self._line.is_up

    async def run(self) -> None:
        """Send and receive until cancelled."""
        await self._line.run(self._heard, self._turn)

    def _turn(self) -> None:
        now = self._clock.monotonic()
        if self._table is not None:
            self._table.beat(now)
        for sender in self.peers.fallen_silent(now):
            self._router.forget_peer(sender)
        self._note()
        self._speak(now)

    def _speak(self, now: float) -> None:
        told = self._router.tell(now)
        self._line.send(self._line.speaker.say(told.loads, told.sent))

    def _heard(self, data: bytes) -> None:
        signal = self._line.envelope.open(data)
        if isinstance(signal, Drop):
            self.counts.drop(signal)
            return
        now = self._clock.monotonic()
        sent = self.peers.hear(signal, now, self._clock.now())
        if isinstance(sent, Drop):
            self.counts.drop(sent)
            return
        self.counts.heard += 1
        try:
            self._router.hear(signal, sent, now)
            if signal.is_last:
                self._router.forget_peer(signal.sender)
        except Exception:
            # Catch everything: one peer's message must not stop us from receiving the others'.
            self.counts.failures += 1
            logger.exception("signal not understood", extra={"action": "signal_failed"})
        self._note()

    def _note(self) -> None:
        self.state = self.peers.state(is_up=self._line.is_up)
        noted = (self.state, self.peers.known())
        if noted != self._noted:
            self._noted = noted
            self._router.note_peers(self.state)
            extra = {"action": "peers_changed", "state": self.state.value, "known": noted[1]}
            logger.info("peers changed", extra=extra)


class KeeperGossipLoops(GossipLoops):
    """The loops of a keeper that pulls flex work, and therefore must receive the live load.

    Its flex work is reported in its engines' claims, never as a load, because a live request does
    not wait for flex work. Without ready engines it sends nothing.
    """

    def __init__(
        self,
        identity: Identity,
        cell: CellKey,
        settings: SignalsSettings,
        clock: Clock,
        router: LoadRouter,
        engines: Engines,
    ) -> None:
        super().__init__(identity, cell, settings, clock, router)
        self._engines = engines

    def _speak(self, now: float) -> None:
        sent = self._router.tell(now).sent
        engines = self._engines(now)
        if engines:
            self._line.send(self._line.speaker.say_engines(engines, sent))


class Announcer:
    """The loop of a keeper that pulls no flex work, and therefore only sends."""

    def __init__(
        self,
        identity: Identity,
        cell: CellKey,
        settings: SignalsSettings,
        clock: Clock,
        engines: Engines,
    ) -> None:
        self._line = _Line(identity, cell, settings, clock)
        self._clock = clock
        self._engines = engines
        self.counts = self._line.counts

    @property
    def is_up(self) -> bool:
        """Whether the transport that reaches furthest is connected."""
        return self._line.is_up

    async def run(self) -> None:
        """Send until cancelled."""
        await self._line.run(_ignore, self._turn)

    def _turn(self) -> None:
        engines = self._engines(self._clock.monotonic())
        if engines:
            self._line.send(self._line.speaker.say_engines(engines))


def _ignore(_: bytes) -> None:
    """Discard a received message: this keeper has no use for it."""
