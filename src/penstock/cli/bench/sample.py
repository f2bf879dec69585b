"""The measurements of one request, and those of a whole run."""

import msgspec

from penstock.records.usage import Usage

# The request was under way when the run ended: it is no error, and in no figure.
STOPPED = "stopped"


class Sample(msgspec.Struct, frozen=True):
    """One request. Times are in seconds, `at` since the run's start. Unknown is None."""

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
    """The measurements of a run so far, from which its figures are computed."""

    samples: list[Sample] = []
    in_flight: int = 0
    failed: int = 0
    seconds: float = 0.0
    # The longest delay of a conversation's start.
    started_late_seconds: float = 0.0
