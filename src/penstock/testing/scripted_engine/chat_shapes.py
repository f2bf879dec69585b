"""Writes answers of chats and completions, streamed and whole."""

from collections.abc import Callable, Iterator

from penstock.testing.scripted_engine.answer_shape import AnswerHead
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_request import EngineRequest
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer
from penstock.testing.scripted_engine.token_stream import TokenStream
from penstock.testing.scripted_engine.vllm_shapes import (
    DONE,
    ChunkWriter,
    whole_answer,
    whole_choice,
)


class ChatShape:
    """Writes one chat answer, with as many choices as the request has."""

    is_chat = True

    def __init__(
        self,
        request: EngineRequest,
        head: AnswerHead,
        usage: AnswerUsage,
        new_id: Callable[[], str],
    ) -> None:
        self._request = request
        self._head = head
        self._usage = usage
        self._new_id = new_id

    def events(self, answers: list[ScriptedAnswer]) -> Iterator[tuple[int, bytes]]:
        head, usage = self._head, self._usage
        chunks = ChunkWriter(head.id, head.created, head.model, is_chat=self.is_chat)
        stream = TokenStream(self._request, chunks, usage, is_chat=self.is_chat)
        # No token is in the first events, which name the role, or in a last one with usage alone.
        silent = len(answers) if self.is_chat else 0
        total = sum(answer.completion_tokens for answer in answers)
        for position, event in enumerate(stream.events(answers, self._call_ids(answers)), 1):
            yield min(max(position - silent, 0), total), event

    def ending(self) -> bytes:
        return DONE

    def whole(self, answers: list[ScriptedAnswer]) -> bytes:
        head, is_chat = self._head, self.is_chat
        call_ids = self._call_ids(answers)
        choices = b",".join(
            whole_choice(index, answer, call_ids[index], is_chat=is_chat)
            for index, answer in enumerate(answers)
        )
        total = sum(answer.completion_tokens for answer in answers)
        usage = self._usage.final(total, is_stream=False, is_chat=is_chat)
        if not self._usage.is_told:
            usage = b""
        return whole_answer(head.id, head.created, head.model, choices, usage, is_chat=is_chat)

    def _call_ids(self, answers: list[ScriptedAnswer]) -> list[list[str]]:
        return [
            [f"chatcmpl-tool-{self._new_id()}" for _ in answer.tool_calls] for answer in answers
        ]


class CompletionShape(ChatShape):
    """Writes a completion: a chat answer without roles, tools and reasoning."""

    is_chat = False
