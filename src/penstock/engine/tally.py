"""What the engine room tells whoever counts, while an answer passes through."""

from typing import Protocol

from penstock.records.usage import Usage


class Tally(Protocol):
    """The port that metering satisfies. All are called before the bytes go to the caller."""

    def note(self, usage: bytes) -> None:
        """The raw usage of a stream so far."""

    def note_uncounted(self) -> None:
        """Something of a stream is there, and its usage is not: some APIs tell it at the end."""

    def settle(self, usage: Usage | None) -> None:
        """The answer is complete; this is its usage. Not called for one that fails."""
