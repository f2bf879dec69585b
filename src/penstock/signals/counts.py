"""Counters of signals: plain integers, read when metrics are requested."""

from enum import StrEnum


class Drop(StrEnum):
    """Why a message was not sent, or was ignored on arrival."""

    # Received and ignored.
    TOO_LARGE = "too_large"
    FORGED = "forged"
    MALFORMED = "malformed"
    OWN = "own"
    REPEATED = "repeated"
    CLOCK = "clock"
    TOO_MANY = "too_many"
    # Not sent.
    QUEUE_FULL = "queue_full"
    NOT_SENT = "not_sent"


class SignalCounts:
    """Counters of one worker or keeper. They only grow."""

    def __init__(self) -> None:
        self.sent = 0
        self.heard = 0
        # Messages from which content was left out to stay within the size limit.
        self.trimmed = 0
        self.failures = 0
        self.dropped: dict[Drop, int] = dict.fromkeys(Drop, 0)

    def drop(self, reason: Drop) -> None:
        self.dropped[reason] += 1
