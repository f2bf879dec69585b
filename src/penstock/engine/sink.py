"""The port that an answer is pushed to; ingress passes a writer.

Back-pressure is a flag and a callback, because the hot path cannot afford an `await` for each of
50,000 chunks a second: while `is_full` the engine's connection is not read.
"""

from collections.abc import Callable

from penstock.records.usage import Usage


class Sink:
    """Takes one answer. A class, not a Protocol, so that compiled code calls it directly."""

    @property
    def is_full(self) -> bool:
        """Whether the reader is behind by more than its buffer."""
        raise NotImplementedError

    @property
    def is_gone(self) -> bool:
        """Whether the reader has gone away, so that what is pushed is lost."""
        raise NotImplementedError

    def when_drained(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when the reader has caught up."""
        raise NotImplementedError

    def begin(self) -> None:
        """Note that the engine took the request and will stream; no event has come yet.

        Not called where events came in the same read: the first `push` implies it.
        """
        raise NotImplementedError

    def push(self, events: bytes) -> None:
        """Take one or more whole events of a stream."""
        raise NotImplementedError

    def comment(self) -> None:
        """Keep the reader's connection alive while events are held back; most have none."""

    def shape(self, answer: bytes) -> bytes:
        """Return a whole answer as the caller wants it; EngineFailed if its shape is unknown."""
        raise NotImplementedError

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        """Take the whole answer of a request that is not streamed, and its usage."""
        raise NotImplementedError
