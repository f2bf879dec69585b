"""The port of what judges an answer before it is counted and pushed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.errors import Error


class AnswerScreen:
    """Lets an answer pass, holds events back, or withholds the rest: then `withheld` is set.

    A class, not a Protocol, so that compiled code calls it directly, for every chunk.
    """

    def __init__(self, comment_seconds: float) -> None:
        # Why nothing more of the answer may go out; None while it may.
        self.withheld: Error | None = None
        # How long nothing passes before the client gets a comment.
        self.comment_seconds = comment_seconds

    def passes(self, events: bytes) -> bool:
        """Return whether these events may go out as they are; if unsure, `events` finds out."""
        raise NotImplementedError

    def events(self, events: bytes) -> bytes:
        """Return the whole events that may go out now; also what precedes a withheld one."""
        raise NotImplementedError

    def answer(self, answer: bytes) -> bytes:
        """Return a whole answer as it may go out."""
        raise NotImplementedError
