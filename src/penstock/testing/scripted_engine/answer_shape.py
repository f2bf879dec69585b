"""The protocol that writes an API's answers: streamed, or as one body."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer


class AnswerHead(msgspec.Struct, frozen=True):
    """The fields that every answer has."""

    id: str
    created: int
    model: str


class AnswerShape(Protocol):
    """Writes one answer: `events` and then `ending`, or `whole` alone."""

    def events(self, answers: list[ScriptedAnswer]) -> Iterator[tuple[int, bytes]]:
        """Yield each event but the last, with the number of tokens made up to it."""

    def ending(self) -> bytes:
        """Return the bytes that show the client that the stream is complete."""

    def whole(self, answers: list[ScriptedAnswer]) -> bytes:
        """Return the body of an answer that is not streamed."""
