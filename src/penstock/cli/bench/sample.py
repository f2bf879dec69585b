"""One request as its client saw it, and everything that a run has seen."""

import msgspec

from penstock.records.usage import Usage

# It was under way when the run was ended: no error, and no figure.
STOPPED = "stopped"


class Sample(msgspec.Struct, frozen=True):
    """Times are in seconds, `at` since the run's start. Unknown is None."""

    at: float
    # "ok", "stopped", or what went wrong.
    code: str
    seconds: float
    first_token_seconds: float | None = None
    # From the first token to the last.
    tokens_seconds: float | None = None
    usage: Usage | None = None
    cost_nanousd: int | None = None


class SeenAnswer(msgspec.Struct):
    """What a run has seen so far; the figures are made of this."""

    samples: list[Sample] = []
    in_flight: int = 0
    failed: int = 0
    seconds: float = 0.0
    # By how much a conversation began after its time, at most.
    started_late_seconds: float = 0.0
