"""Writes `/v1/messages` answers in Anthropic's shape, streamed and whole, as vLLM 0.32 does.

The stream's first usage counts the whole prompt; its last one, and a whole answer's, leave out
the tokens read from the cache and those written to it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from penstock.testing.scripted_engine.answer_shape import AnswerHead
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_request import EngineRequest
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer

_json = msgspec.json.encode


class _Block(msgspec.Struct, frozen=True):
    """A block of content: as a stream opens it, its deltas, and as it is in a whole answer."""

    start: dict[str, Any]
    deltas: list[dict[str, Any]]
    whole: dict[str, Any]
    is_call: bool = False


class MessagesShape:
    """Writes one answer."""

    def __init__(
        self,
        request: EngineRequest,
        head: AnswerHead,
        usage: AnswerUsage,
        new_id: Callable[[], str],
    ) -> None:
        self._head = head
        self._usage = usage
        self._new_id = new_id

    def events(self, answers: list[ScriptedAnswer]) -> Iterator[tuple[int, bytes]]:
        answer, head = answers[0], self._head
        message: dict[str, Any] = {
            "id": head.id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": head.model,
            "stop_reason": None,
            "stop_sequence": None,
        }
        if self._usage.is_told:
            message["usage"] = self._usage.of_message_start()
        yield 0, _event("message_start", message=message)
        made = 0
        for index, block in enumerate(self._blocks(answer)):
            made += block.is_call
            yield made, _event("content_block_start", content_block=block.start, index=index)
            for delta in block.deltas:
                made += delta["type"] != "signature_delta"
                yield made, _event("content_block_delta", delta=delta, index=index)
            yield made, _event("content_block_stop", index=index)
        reason, word = _stop_reason(answer)
        last: dict[str, Any] = {"delta": {"stop_reason": reason, "stop_sequence": word}}
        if self._usage.is_told:
            last["usage"] = self._usage.of_message(answer)
        yield answer.completion_tokens, _event("message_delta", **last)

    def ending(self) -> bytes:
        return _event("message_stop")

    def whole(self, answers: list[ScriptedAnswer]) -> bytes:
        answer, head = answers[0], self._head
        content = [block.whole for block in self._blocks(answer)]
        reason, word = _stop_reason(answer)
        body: dict[str, Any] = {
            "id": head.id,
            "type": "message",
            "role": "assistant",
            "content": content or [{"type": "text", "text": ""}],
            "model": head.model,
            "stop_reason": reason,
        }
        if word is not None:
            body["stop_sequence"] = word
        if self._usage.is_told:
            body["usage"] = self._usage.of_message(answer)
        return _json(body)

    def _blocks(self, answer: ScriptedAnswer) -> Iterator[_Block]:
        if answer.reasoning:
            signature = self._new_id() * 2
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in answer.reasoning]
            deltas.append({"type": "signature_delta", "signature": signature})
            whole = {"type": "thinking", "thinking": "".join(answer.reasoning)}
            yield _Block(
                {"type": "thinking", "thinking": ""}, deltas, {**whole, "signature": signature}
            )
        pieces = [piece for piece in answer.pieces if piece]
        if pieces:
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
            whole = {"type": "text", "text": "".join(pieces)}
            yield _Block({"type": "text", "text": ""}, deltas, whole)
        for call in answer.tool_calls:
            call_id = f"chatcmpl-tool-{self._new_id()}"
            start: dict[str, Any] = {
                "type": "tool_use",
                "id": call_id,
                "name": call.name,
                "input": {},
            }
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in call.pieces]
            whole = {**start, "input": msgspec.json.decode("".join(call.pieces))}
            yield _Block(start, deltas, whole, is_call=True)


def _stop_reason(answer: ScriptedAnswer) -> tuple[str, str | None]:
    if answer.finish_reason == "length":
        return "max_tokens", None
    if answer.tool_calls:
        return "tool_use", None
    if answer.stop_reason is not None:
        return "stop_sequence", answer.stop_reason
    return "end_turn", None


def _event(kind: str, **fields: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _json({"type": kind, **fields}))
