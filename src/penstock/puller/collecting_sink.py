"""Collects a job's whole answer, until the queue has it."""

from collections.abc import Callable

from penstock.engine.sink import Sink
from penstock.records.usage import Usage
from penstock.serving.shaping import Shaper


class CollectingSink(Sink):
    """Keeps a whole answer; jobs are not streamed, so `push` is never called."""

    def __init__(self, shaper: Shaper) -> None:
        self._shaper = shaper
        self.answer = b""

    @property
    def is_full(self) -> bool:
        return False

    @property
    def is_gone(self) -> bool:
        return False

    def when_drained(self, resume: Callable[[], None]) -> None:
        resume()

    def begin(self) -> None:
        raise AssertionError("a job is not streamed")

    def push(self, events: bytes) -> None:
        del events
        raise AssertionError("a job is not streamed")

    def shape(self, answer: bytes) -> bytes:
        return self._shaper.answer(answer)

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        del usage
        self.answer = shaped
