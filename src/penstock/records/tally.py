"""What one attempt at a replica uses, told while its answer passes through."""

from penstock.records.request import Outcome
from penstock.records.usage import Usage


class Tally:
    """Opened before an attempt, closed once whatever came. This one keeps nothing; metering's do.

    A class and not a Protocol: so compiled code calls it directly, for every chunk. What it is told
    of an answer, it is told before the bytes go to the caller.
    """

    def __init__(self) -> None:
        self.charge_nanousd = 0

    def note(self, usage: bytes) -> None:
        """The raw usage of a stream so far."""

    def settle(self, usage: Usage | None) -> None:
        """The answer is complete; this is its usage. Not called for one that fails."""

    def close(
        self, outcome: Outcome, *, usage: Usage | None, is_owed: bool, error: str = ""
    ) -> None:
        """How the attempt ended.

        `is_owed`: the caller has a part of the answer, or left after the request was sent.
        """
