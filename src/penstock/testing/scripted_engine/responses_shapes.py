"""Writes `/v1/responses` answers, streamed and whole: vLLM 0.32's events and keys in order.

The bytes equal those recorded from a model without a reasoning parser; the events of reasoning
follow vLLM's source. Only the last event has usage.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from penstock.testing.scripted_engine.answer_shape import AnswerHead
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_request import EngineRequest
from penstock.testing.scripted_engine.responses_items import Item, items_of
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer

_json = msgspec.json.encode
# For each kind of item: the name of its events, and the key of its whole text.
_EVENTS = {
    "message": ("response.output_text", "text"),
    "reasoning": ("response.reasoning_text", "text"),
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}


class ResponsesShape:
    """Writes one answer. Its events are numbered from 0."""

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
        self._number = 0
        self._done: dict[str, Any] = {}

    def events(self, answers: list[ScriptedAnswer]) -> Iterator[tuple[int, bytes]]:
        answer = answers[0]
        begun = self._response("in_progress", [], None)
        yield 0, self._event("response.created", {"response": begun})
        yield 0, self._event("response.in_progress", {"response": begun})
        made, output = 0, []
        for index, item in enumerate(items_of(answer, self._request, self._new_id)):
            for tokens, event in self._item(item, index):
                yield made + tokens, event
            made += len(item.pieces) + item.is_call
            output.append(item.closed())
        self._done = self._ended(answer, output)

    def ending(self) -> bytes:
        return self._event("response.completed", {"response": self._done})

    def whole(self, answers: list[ScriptedAnswer]) -> bytes:
        items = items_of(answers[0], self._request, self._new_id)
        return _json(self._ended(answers[0], [item.closed(is_whole=True) for item in items]))

    def _item(self, item: Item, index: int) -> Iterator[tuple[int, bytes]]:
        """Yield an item's events, each with the number of the item's tokens made up to it."""
        first = int(item.is_call)
        name, whole_name = _EVENTS[item.kind]
        place: dict[str, Any] = {"item_id": item.id, "output_index": index}
        if not item.is_call:
            place["content_index"] = 0
        probed = {**place, "logprobs": []} if item.kind == "message" else place
        added = {"item": item.opened(), "output_index": index}
        yield first, self._event("response.output_item.added", added)
        if not item.is_call:
            part = {**place, "part": item.part(is_done=False)}
            yield 0, self._event("response.content_part.added", part)
        for made, piece in enumerate(item.pieces, first + 1):
            yield made, self._event(f"{name}.delta", {**probed, "delta": piece})
        total = len(item.pieces) + first
        # vLLM sorts the keys by name, except for this one of this event.
        last = {"name": item.name} if item.kind == "function_call" else {}
        yield total, self._event(f"{name}.done", {**probed, whole_name: item.text}, last)
        if not item.is_call:
            part = {**place, "part": item.part(is_done=True)}
            yield total, self._event("response.content_part.done", part)
        done = {"item": item.closed(), "output_index": index}
        yield total, self._event("response.output_item.done", done)

    def _event(
        self, kind: str, fields: dict[str, Any], last: dict[str, Any] | None = None
    ) -> bytes:
        told = {**fields, "sequence_number": self._number, "type": kind}
        self._number += 1
        data = _json({**dict(sorted(told.items())), **(last or {})})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)

    def _ended(self, answer: ScriptedAnswer, output: list[dict[str, Any]]) -> dict[str, Any]:
        # vLLM sends `response.completed` also for an answer that was cut at its limit.
        status = "incomplete" if answer.finish_reason == "length" else "completed"
        usage = self._usage.of_response(answer) if self._usage.is_told else None
        return self._response(status, output, usage)

    def _response(
        self, status: str, output: list[dict[str, Any]], usage: dict[str, object] | None
    ) -> dict[str, Any]:
        head, echo = self._head, self._request.echo
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": head.id,
            "created_at": head.created,
            "incomplete_details": cut,
            "instructions": echo["instructions"],
            "metadata": echo["metadata"],
            "model": head.model,
            "object": "response",
            "output": output,
            "parallel_tool_calls": echo["parallel_tool_calls"],
            "temperature": echo["temperature"],
            "tool_choice": echo["tool_choice"],
            "tools": echo["tools"],
            "top_p": echo["top_p"],
            "background": False,
            "max_output_tokens": echo["max_output_tokens"],
            "max_tool_calls": echo["max_tool_calls"],
            "previous_response_id": None,
            "prompt": None,
            "reasoning": echo["reasoning"],
            "service_tier": echo["service_tier"],
            "status": status,
            "text": echo["text"],
            "top_logprobs": None,
            "truncation": echo["truncation"],
            "usage": usage,
            "user": echo["user"],
            "presence_penalty": echo["presence_penalty"],
            "frequency_penalty": echo["frequency_penalty"],
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "input_messages": None,
            "output_messages": None,
        }
