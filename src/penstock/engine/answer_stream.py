"""A streamed answer on its way through, whichever API it is written in."""

from typing import Protocol

from penstock.records.usage import Usage


class AnswerStream(Protocol):
    """Fed the answer's bytes in any pieces; gives back whole events, and knows what was counted."""

    # The engine said that this is the end; or that it failed, in the stream itself.
    is_done: bool
    has_error: bool

    def feed(self, data: bytes) -> bytes:
        """Whole events that may go to the caller now; b"" when none is complete."""

    def usage(self) -> Usage | None:
        """The last counts seen; None while nothing is known."""

    def latest(self) -> bytes | None:
        """The raw usage of what has come so far, for whoever must know it if we die now."""
