"""Who was heard when. Pure: time is passed in.

It drops what was heard before, finds the prompts that are new, and says whether all the gateway
workers that should be heard are. A keeper is remembered too, but its silence is no gateway's.
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
    """Everybody but `own` whose messages arrive here; at most `peers_max` of them."""

    def __init__(self, own: int, settings: SignalsSettings) -> None:
        self._own = own
        self._silence_seconds = settings.silence_seconds
        self._memory_seconds = settings.memory_seconds
        self._peers_max = settings.peers_max
        self._peers: dict[int, _Peer] = {}

    def hear(self, signal: Signal, now: float, wall: float) -> list[SentPrompt] | Drop:
        """The prompts that are new to us, or why the message is not listened to.

        Numbers are wall nanoseconds, so they grow across a sender's restarts, and what is older
        than we remember senders is refused even from one that we have forgotten.
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
        """Senders that have fallen silent since this was asked last. Forgets those long gone."""
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
        """`is_up`: whether those who speak could be heard at all."""
        standings = self._gateways()
        if not is_up or _Standing.SILENT in standings:
            return PeerState.SILENT
        return PeerState.HEARD if standings else PeerState.ALONE

    def known(self) -> int:
        """Gateway workers that are heard, or should be."""
        return len(self._gateways())

    def heard(self) -> int:
        """Gateway workers and keepers that are heard now."""
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
