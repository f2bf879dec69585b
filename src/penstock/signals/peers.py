"""Tracks when each peer last sent a message. Pure: time is passed in.

It drops repeated messages, finds the new prompts, and reports whether any gateway worker has become
silent. It tracks keepers too, but a silent keeper does not count as a silent gateway.
"""

import enum

from penstock.records.signal import PeerState, SentPrompt, Signal
from penstock.signals.counts import Drop
from penstock.signals.settings import SignalsSettings


class _Standing(enum.Enum):
    HEARD = enum.auto()
    SILENT = enum.auto()
    ENDED = enum.auto()


class _Peer:
    __slots__ = ("batch", "heard_at", "is_keeper", "number", "standing")

    def __init__(self) -> None:
        self.number = -1
        self.batch = -1
        self.heard_at = 0.0
        self.is_keeper = False
        self.standing = _Standing.HEARD


class Peers:
    """The senders, except `own`, whose messages arrive here; at most `peers_max`."""

    def __init__(self, own: int, settings: SignalsSettings) -> None:
        self._own = own
        self._silence_seconds = settings.silence_seconds
        self._memory_seconds = settings.memory_seconds
        self._peers_max = settings.peers_max
        self._peers: dict[int, _Peer] = {}

    def hear(self, signal: Signal, now: float, wall: float) -> list[SentPrompt] | Drop:
        """Return the prompts not received before, or the reason why the message is dropped.

        Numbers are wall clock nanoseconds, so they grow across a sender's restarts, and a message
        older than `memory_seconds` is refused even from a sender that was forgotten.
        """
        if signal.sender == self._own:
            return Drop.OWN
        if abs(signal.number / 1e9 - wall) > self._memory_seconds:
            return Drop.CLOCK
        peer = self._peers.get(signal.sender) or self._new_peer(signal.sender)
        if peer is None:
            return Drop.TOO_MANY
        if signal.number <= peer.number:
            return Drop.REPEATED
        new = [batch for batch in signal.batches if peer.batch < batch.number <= signal.number]
        peer.number = signal.number
        peer.batch = max([peer.batch, *(batch.number for batch in new)])
        peer.heard_at = now
        peer.is_keeper = peer.is_keeper or bool(signal.engines)
        peer.standing = _Standing.ENDED if signal.is_last else _Standing.HEARD
        return [prompt for batch in sorted(new, key=lambda b: b.number) for prompt in batch.sent]

    def fallen_silent(self, now: float) -> list[int]:
        """Return the senders that became silent since the last call; forget those long silent."""
        fallen = []
        for sender, peer in list(self._peers.items()):
            age = now - peer.heard_at
            if age > self._memory_seconds:
                del self._peers[sender]
            if age > self._silence_seconds and peer.standing is _Standing.HEARD:
                peer.standing = _Standing.SILENT
                fallen.append(sender)
        return fallen

    def state(self, *, is_up: bool) -> PeerState:
        """Return the peers' state; `is_up` is whether messages can be received at all."""
        standings = self._gateways()
        if not is_up or _Standing.SILENT in standings:
            return PeerState.SILENT
        return PeerState.HEARD if standings else PeerState.ALONE

    def known(self) -> int:
        """Return the number of gateway workers that are sending, or should be."""
        return len(self._gateways())

    def heard(self) -> int:
        """Return the number of gateway workers and keepers that are sending now."""
        return sum(peer.standing is _Standing.HEARD for peer in self._peers.values())

    def _gateways(self) -> list[_Standing]:
        return [
            peer.standing
            for peer in self._peers.values()
            if not peer.is_keeper and peer.standing is not _Standing.ENDED
        ]

    def _new_peer(self, sender: int) -> _Peer | None:
        if len(self._peers) >= self._peers_max:
            gone = [
                (peer.heard_at, sender)
                for sender, peer in self._peers.items()
                if peer.standing is not _Standing.HEARD
            ]
            if not gone:
                return None
            del self._peers[min(gone)[1]]
        peer = self._peers[sender] = _Peer()
        return peer
