"""Writes a streamed answer's events in vLLM's order: roles, tokens of choices in turn, usage."""

from collections.abc import Iterator
from itertools import zip_longest

from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_request import EngineRequest
from penstock.testing.scripted_engine.prefix_blocks import count_tokens
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer
from penstock.testing.scripted_engine.vllm_shapes import ChunkWriter


class TokenStream:
    """Writes the events of one streamed answer, with usage if request and script allow it."""

    def __init__(
        self, request: EngineRequest, chunks: ChunkWriter, usage: AnswerUsage, *, is_chat: bool
    ) -> None:
        self._request = request
        self._chunks = chunks
        self._usage = usage
        self._is_chat = is_chat
        self._include = request.include_usage and usage.is_told
        self._continuous = request.continuous_usage and usage.is_told

    def events(self, answers: list[ScriptedAnswer], call_ids: list[list[str]]) -> Iterator[bytes]:
        """Yield each SSE event but [DONE]. Choices take turns, one token each."""
        if self._is_chat:
            for index in range(len(answers)):
                yield self._chunks.role(index, self._running(0, index))
        turns = [
            self._choice(index, answer, call_ids[index]) for index, answer in enumerate(answers)
        ]
        for turn in zip_longest(*turns):
            yield from (event for event in turn if event is not None)
        if self._include:
            total = sum(answer.completion_tokens for answer in answers)
            final = self._usage.final(total, is_stream=True, is_chat=self._is_chat)
            yield self._chunks.usage(final)

    def _choice(self, index: int, answer: ScriptedAnswer, call_ids: list[str]) -> Iterator[bytes]:
        count = 0
        for piece in answer.reasoning:
            count += 1
            yield self._chunks.reasoning(index, piece, self._running(count, index))
        for position, call in enumerate(answer.tool_calls):
            count += 1
            if answer.calls_function:
                yield self._chunks.function_part(index, {"name": call.name}, b"")
            else:
                start = (position, call_ids[position], call.name)
                yield self._chunks.tool_start(index, start, self._running(count, index))
            for piece in call.pieces:
                count += 1
                usage = self._running(count, index)
                if answer.calls_function:
                    yield self._chunks.function_part(index, {"arguments": piece}, usage)
                else:
                    yield self._chunks.tool_arguments(index, position, piece, usage)
        last = answer.pieces[-1] if answer.ends_with_piece and answer.pieces else None
        for piece in answer.pieces[:-1] if last is not None else answer.pieces:
            count += 1
            yield self._chunks.content(index, piece, self._running(count, index))
        usage = self._running(answer.completion_tokens, index)
        yield self._chunks.finish(index, last, answer, usage, is_last_chunk=not self._include)

    def _running(self, count: int, index: int) -> bytes:
        """Return the usage of this choice alone, with its own prompt if there are several."""
        if not self._continuous:
            return b""
        prompts, own = self._request.prompts, None
        if len(prompts) > 1:
            own = count_tokens(prompts[index // self._request.n])
        return self._usage.running(count, own, is_chat=self._is_chat)
