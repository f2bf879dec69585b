"""A streamed answer on its way through, whichever API it is written in."""

from penstock.records.usage import Usage


class AnswerStream:
    """Fed the answer's bytes in any pieces; gives back whole events, and knows what was counted.

    A class and not a Protocol: so compiled code calls it directly, for every chunk.
    """

    def __init__(self) -> None:
        # The engine said that this is the end; or that it failed, in the stream itself.
        self.is_done = False
        self.has_error = False

    def feed(self, data: bytes) -> bytes:
        """Whole events that may go to the caller now; b"" when none is complete."""
        raise NotImplementedError

    def usage(self) -> Usage | None:
        """The last counts seen, or an estimate until there are any; None before the first token."""
        raise NotImplementedError

    def latest(self) -> bytes | None:
        """The raw usage of what has come so far, for whoever must know it if we die now."""
        raise NotImplementedError
