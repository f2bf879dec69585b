"""Where a job's answer goes: kept whole, in the engine's own shape, until it is written."""

from collections.abc import Callable

from penstock.engine.sink import Sink
from penstock.records.usage import Usage

# Unescaped quotes: these bytes are a key wherever they stand, never a model's words.
_REASONING = b'"reasoning":'
_REASONING_CONTENT = b'"reasoning_content":'


class CollectingSink(Sink):
    """Jobs are not streamed, so that it is never pushed to."""

    __slots__ = ("_renames_reasoning", "answer")

    def __init__(self, *, renames_reasoning: bool) -> None:
        self._renames_reasoning = renames_reasoning
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
        if self._renames_reasoning:
            return answer.replace(_REASONING, _REASONING_CONTENT)
        return answer

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        del usage
        self.answer = shaped
