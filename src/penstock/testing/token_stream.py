"""The events of a streamed answer in vLLM's order: roles, tokens of all choices in turn, usage."""

from collections.abc import Iterator
from itertools import zip_longest

from penstock.testing.chat_request import ChatRequest
from penstock.testing.scripted_answers import Answer
from penstock.testing.vllm_shapes import ChunkWriter, Usage


class TokenStream:
    """What one streamed answer sends. `include_usage` and `continuous` are what the client gets."""

    def __init__(
        self, request: ChatRequest, chunks: ChunkWriter, usage: Usage, *, has_usage: bool
    ) -> None:
        self._request = request
        self._chunks = chunks
        self._usage = usage
        self._include = request.include_usage and has_usage
        self._continuous = request.continuous_usage and has_usage

    def events(self, answers: list[Answer], call_ids: list[list[str]]) -> Iterator[bytes]:
        """Each SSE event but [DONE]. Choices take turns, a token each."""
        if self._request.is_chat:
            for index in range(len(answers)):
                yield self._chunks.role(index, self._running(0))
        turns = [
            self._choice(index, answer, call_ids[index]) for index, answer in enumerate(answers)
        ]
        for turn in zip_longest(*turns):
            yield from (event for event in turn if event is not None)
        if self._include:
            total = sum(answer.completion_tokens for answer in answers)
            is_chat = self._request.is_chat
            yield self._chunks.usage(self._usage.final(total, is_stream=True, is_chat=is_chat))

    def _choice(self, index: int, answer: Answer, call_ids: list[str]) -> Iterator[bytes]:
        count = 0
        for piece in answer.reasoning:
            count += 1
            yield self._chunks.reasoning(index, piece, self._running(count))
        for position, call in enumerate(answer.tool_calls):
            count += 1
            start = (position, call_ids[position], call.name)
            yield self._chunks.tool_start(index, start, self._running(count))
            for piece in call.pieces:
                count += 1
                yield self._chunks.tool_arguments(index, position, piece, self._running(count))
        last = answer.pieces[-1] if answer.ends_with_piece and answer.pieces else None
        for piece in answer.pieces[:-1] if last is not None else answer.pieces:
            count += 1
            yield self._chunks.content(index, piece, self._running(count))
        usage = self._running(answer.completion_tokens)
        yield self._chunks.finish(index, last, answer, usage, is_last_chunk=not self._include)

    def _running(self, count: int) -> bytes:
        return self._usage.running(count) if self._continuous else b""
