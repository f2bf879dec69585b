"""Interface that receives the usage of one attempt while its answer passes through."""

from penstock.records.request import Outcome
from penstock.records.usage import Usage


class Tally:
    """Records an attempt's usage. Closed once, however it ends. This base class records nothing.

    A class, not a Protocol, so that compiled code calls it directly for every chunk. It is called
    before the corresponding bytes go to the caller.
    """

    def __init__(self) -> None:
        self.charge_nanousd = 0

    def note(self, usage: bytes) -> None:
        """Record the raw usage of a stream so far."""

    def settle(self, usage: Usage | None) -> None:
        """Record the usage of a complete answer. Not called for an attempt that fails."""

    def close(
        self, outcome: Outcome, *, usage: Usage | None, is_owed: bool, error: str = ""
    ) -> None:
        """Record how the attempt ended.

        `is_owed`: the caller has a part of the answer, or left after the request was sent.
        """
