"""What signals count: plain integers, read when somebody asks for metrics."""

from enum import StrEnum


class Drop(StrEnum):
    """Why a message did not arrive, or was not listened to."""

    # Heard, and not listened to.
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
    """One worker's or keeper's. Only ever grows."""

    def __init__(self) -> None:
        self.sent = 0
        self.heard = 0
        # Messages that had to leave something out.
        self.trimmed = 0
        self.failures = 0
        self.dropped: dict[Drop, int] = dict.fromkeys(Drop, 0)

    def drop(self, reason: Drop) -> None:
        self.dropped[reason] += 1
