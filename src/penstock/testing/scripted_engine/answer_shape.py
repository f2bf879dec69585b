"""What an API's answers must be able to do: be streamed, end, and be whole."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer


class AnswerHead(msgspec.Struct, frozen=True):
    """What every answer says of itself."""

    id: str
    created: int
    model: str


class AnswerShape(Protocol):
    """One answer's bytes. `events` comes before `ending`; `whole` stands alone."""

    def events(self, answers: list[ScriptedAnswer]) -> Iterator[tuple[int, bytes]]:
        """Each event but the one that ends the stream, and the tokens made up to it."""

    def ending(self) -> bytes:
        """What tells the client that the stream is complete."""

    def whole(self, answers: list[ScriptedAnswer]) -> bytes:
        """The body of an answer that is not streamed."""
