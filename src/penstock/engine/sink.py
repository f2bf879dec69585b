"""Where an answer goes. Pushed to, not iterated: ingress passes a writer.

Back-pressure is a flag and a callback, because an `await` for each of 50,000 chunks a second is
what the hot path cannot afford: while `is_full` the engine's connection is not read.
"""

from collections.abc import Callable

from penstock.records.usage import Usage


class Sink:
    """One answer's way out. A class and not a Protocol: so compiled code calls it directly."""

    @property
    def is_full(self) -> bool:
        """Whether the reader is behind by more than its buffer."""
        raise NotImplementedError

    @property
    def is_gone(self) -> bool:
        """Whether the reader has gone away: nobody will have what is pushed."""
        raise NotImplementedError

    def when_drained(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when the reader has caught up."""
        raise NotImplementedError

    def begin(self) -> None:
        """The engine took the request and will stream; nothing of the answer is known yet.

        Not told where events came with that: the first `push` says so, too.
        """
        raise NotImplementedError

    def push(self, events: bytes) -> None:
        """One or more whole events of a stream."""
        raise NotImplementedError

    def shape(self, answer: bytes) -> bytes:
        """A whole answer as the caller wants it; EngineFailed if it has no known shape."""
        raise NotImplementedError

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        """The whole answer of a request that is not streamed, and what the engine counted."""
        raise NotImplementedError
