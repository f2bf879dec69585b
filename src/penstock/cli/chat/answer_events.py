"""Reads a streamed chat answer line by line: text, reasoning, usage, cost, or an error."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.chat.conversation import TurnUsage
from penstock.cli.exit_codes import CommandFailed
from penstock.wire.engine_usage import counts_of
from penstock.wire.usage_shapes import WireUsage

if TYPE_CHECKING:
    from penstock.records.usage import Usage

DATA_MARK: Final = b"data:"
COST_MARK: Final = b": cost-usd "


class Piece(msgspec.Struct, frozen=True):
    """A piece of the answer's text, of the reasoning before it, or of what tools did."""

    text: str
    is_thought: bool = False
    is_tool: bool = False


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = _Delta()


class _Error(msgspec.Struct):
    message: str = ""
    code: str | int | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: WireUsage | None = None
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_Event)


class AnswerEvents:
    """Yields an answer's pieces; `usage` is known after the last one."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self._usage: Usage | None = None
        self._cost: str | None = None

    def __iter__(self) -> Iterator[Piece]:
        for line in self._lines:
            if line.startswith(COST_MARK):
                self._cost = line.removeprefix(COST_MARK).strip().decode("ascii", "replace")
            elif line.startswith(DATA_MARK):
                yield from self._event(line.removeprefix(DATA_MARK).strip())

    @property
    def usage(self) -> TurnUsage:
        usage = self._usage
        if usage is None:
            return TurnUsage(cost_usd=self._cost)
        return TurnUsage(
            usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, self._cost
        )

    def _event(self, data: bytes) -> Iterator[Piece]:
        if data == b"[DONE]":
            return
        try:
            event = _decoder.decode(data)
        except msgspec.DecodeError:
            raise CommandFailed("This is not the stream of a chat completion.") from None
        if event.error is not None:
            raise CommandFailed(f"The answer broke off: {event.error.message}")
        if event.usage is not None:
            self._usage = counts_of(event.usage)
        for choice in event.choices[:1]:
            thought = choice.delta.reasoning or choice.delta.reasoning_content
            if thought:
                yield Piece(thought, is_thought=True)
            if choice.delta.content:
                yield Piece(choice.delta.content)
