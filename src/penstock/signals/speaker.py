"""Builds the messages of one sender: numbered, and within the size limit.

Each batch of prompts is sent in three messages, or once while all messages are known to arrive.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.records.signal import EngineClaim, LoadClaim, SentPrompt, Signal, SignalBatch
from penstock.signals.counts import SignalCounts
from penstock.signals.envelope import Envelope
from penstock.signals.identity import Identity

# A Unix datagram queue holds ten messages, and NATS drops what it cannot deliver: a batch sent in
# three messages arrives unless all three are lost. Where delivery is certain, sending it once takes
# a third of the work, for the receiver too.
_TIMES: Final = 3


class Speaker:
    """Builds sealed messages. Their numbers are wall time, so they grow across restarts."""

    def __init__(
        self, identity: Identity, envelope: Envelope, clock: Clock, counts: SignalCounts
    ) -> None:
        self._identity = identity
        self._envelope = envelope
        self._clock = clock
        self._counts = counts
        self._number = 0
        self._batches: deque[SignalBatch] = deque(maxlen=_TIMES)
        # How many of the next messages still repeat the batches of earlier messages.
        self._repeating = _TIMES

    def say(self, loads: Sequence[LoadClaim], sent: Sequence[SentPrompt]) -> bytes:
        """Return a gateway worker's next message."""
        number = self._next_number()
        batches = self._next_batches(number, sent)
        return self._seal(self._signal(number, loads=list(loads), batches=batches))

    def say_engines(self, engines: Sequence[EngineClaim], sent: Sequence[SentPrompt] = ()) -> bytes:
        """Return a keeper's next message: its engines, their flex work, and its prompts."""
        number = self._next_number()
        batches = self._next_batches(number, sent)
        return self._seal(self._signal(number, batches=batches, engines=list(engines)))

    def say_last(self) -> bytes:
        """Return this sender's last message; its silence afterwards is not taken for a failure."""
        batches = [batch for batch in self._batches if batch.sent]
        return self._seal(self._signal(self._next_number(), batches=batches, is_last=True))

    def note_arrival(self, *, is_sure: bool) -> None:
        """Note whether all peers have the last message; if not, the next messages repeat it."""
        self._repeating = max(0, self._repeating - 1) if is_sure else _TIMES

    def _next_batches(self, number: int, sent: Sequence[SentPrompt]) -> list[SignalBatch]:
        self._batches.appendleft(SignalBatch(number, list(sent)))
        told = self._batches if self._repeating else [self._batches[0]]
        return [batch for batch in told if batch.sent]

    def _next_number(self) -> int:
        self._number = max(self._number + 1, int(self._clock.now() * 1e9))
        return self._number

    def _signal(
        self,
        number: int,
        *,
        loads: list[LoadClaim] | None = None,
        batches: list[SignalBatch] | None = None,
        engines: list[EngineClaim] | None = None,
        is_last: bool = False,
    ) -> Signal:
        identity = self._identity
        return Signal(
            sender=identity.sender,
            number=number,
            host=identity.host,
            loads=loads or [],
            batches=batches or [],
            engines=engines or [],
            is_last=is_last,
        )

    def _seal(self, signal: Signal) -> bytes:
        data = self._envelope.seal(signal)
        if len(data) <= self._envelope.bytes_max:
            return data
        self._counts.trimmed += 1
        while len(data) > self._envelope.bytes_max:
            signal = _shorter(signal)
            data = self._envelope.seal(signal)
        return data


def _shorter(signal: Signal) -> Signal:
    """Drop the least valuable part: repeats, then the oldest prompts, then half of the claims."""
    batches = signal.batches
    if len(batches) > 1:
        return msgspec.structs.replace(signal, batches=batches[:-1])
    if batches:
        return msgspec.structs.replace(signal, batches=_halved(batches[0]))
    assert signal.loads or signal.engines, "a message about nothing fits"
    return msgspec.structs.replace(
        signal,
        loads=signal.loads[: len(signal.loads) // 2],
        engines=signal.engines[: len(signal.engines) // 2],
    )


def _halved(batch: SignalBatch) -> list[SignalBatch]:
    """Keep the newer half of the prompts; of a single long prompt, the first half of its links.

    The first links of a prompt are a valid prompt, and the part that other prompts share.
    """
    sent = batch.sent
    if len(sent) > 1:
        return [SignalBatch(batch.number, sent[len(sent) // 2 :])]
    half = len(sent[0].links) // 2
    if not half:
        return []
    prompt = msgspec.structs.replace(
        sent[0], links=sent[0].links[:half], tokens=sent[0].tokens[:half]
    )
    return [SignalBatch(batch.number, [prompt])]
