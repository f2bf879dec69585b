"""A speaker of signals with a clock and a bus that tests control."""

from collections.abc import Sequence

from penstock.records.signal import LoadClaim, SentPrompt, Signal
from penstock.signals.counts import SignalCounts
from penstock.signals.envelope import Envelope
from penstock.signals.identity import Identity
from penstock.signals.speaker import Speaker
from penstock.testing import ManualClock

LIMIT = 4096


class Scene:
    """A speaker, and somebody who opens what it says."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.counts = SignalCounts()
        self.envelope = Envelope(b"k" * 32, LIMIT)
        self.speaker = Speaker(Identity(5, "host"), self.envelope, self.clock, self.counts)

    def say(self, sent: Sequence[SentPrompt], loads: Sequence[LoadClaim] = ()) -> Signal:
        return self.open(self.speaker.say(loads, sent))

    def open(self, data: bytes) -> Signal:
        assert len(data) <= LIMIT
        signal = self.envelope.open(data)
        assert isinstance(signal, Signal)
        return signal


def prompt(session: int, links: int = 1) -> SentPrompt:
    return SentPrompt(session, "replica", 0, [2**63 + link for link in range(links)], [100] * links)
