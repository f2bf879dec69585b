"""The base of streamed answers, whichever API they are written in."""

from penstock.records.usage import Usage


class AnswerStream:
    """Takes an answer's bytes in any pieces, returns whole events, and keeps the usage.

    A class, not a Protocol, so that compiled code calls it directly, for every chunk.
    """

    def __init__(self) -> None:
        # Whether the stream has had the engine's end mark, or an error of the engine's.
        self.is_done = False
        self.has_error = False

    def feed(self, data: bytes) -> bytes:
        """Return the whole events that may go to the caller now; b"" when there are none."""
        raise NotImplementedError

    def usage(self) -> Usage | None:
        """Return the last counts, or an estimate until there are any; None before a token."""
        raise NotImplementedError

    def finish_reasons(self, choices: int) -> tuple[str, ...]:
        """Return why the model stopped, for each choice; empty where no event was searched for it.

        A stream notes only what it looks at anyway: no chunk costs anything for this.
        """
        return ()

    def latest(self) -> bytes | None:
        """Return the raw usage so far, to be charged if this process dies now."""
        raise NotImplementedError
