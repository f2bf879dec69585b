"""Composes a response of the Responses API from a chat answer, streamed or whole. Pure.

Every item that is begun is ended; numbers and places have no gaps; one id from the first event to
the last. What a client sees last is the object that `response` holds.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.errors import EngineFailed
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_object import Response
from penstock.wire.usage_shapes import Details

_DATA: Final = b"data:"
_DONE: Final = b"[DONE]"
_END: Final = b"\n\n"
INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_FAILED: Final = "Model execution failed: the engine reported an error in its answer."


class FunctionDelta(msgspec.Struct):
    """A piece of a call: its name comes whole, its arguments in pieces."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct):
    """A piece of one of several calls."""

    index: int = 0
    id: str | None = None
    function: FunctionDelta | None = None


class _Delta(msgspec.Struct):
    """A chunk's delta, or a whole answer's message: both have the same fields."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None


class _Logprobs(msgspec.Struct):
    content: list[dict[str, Any]] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct):
    """What an engine counted of one answer."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: Details | None = None
    completion_tokens_details: _OutputDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: ChatUsage | None = None
    error: object = None


_decoder = msgspec.json.Decoder(_Chunk)


class OpenItem:
    """An item that is not ended: deltas are kept as pieces, because adding to a text copies it."""

    def __init__(self, item: Item, place: int) -> None:
        self.item = item
        self.place = place
        self.pieces: list[str] = []
        self.logprobs: list[dict[str, Any]] = []


class ResponseComposer:
    """Turns chat chunks into events, and holds the response as it stands."""

    def __init__(self, response: Response, now: Callable[[], float]) -> None:
        self.response = response
        self._now = now
        self._key = response["id"].partition("_")[2]
        self._number = 0
        self._events: list[bytes] = []
        # The text or reasoning that is being written; and the calls that are, by the index that
        # the engine gives them.
        self._open: OpenItem | None = None
        self._calls: dict[int, OpenItem] = {}
        self._finish = ""
        self._is_begun = False
        self._is_whole = False

    def events(self, chunks: bytes) -> bytes:
        """Take whole chat events; return the events that they become."""
        self._begin()
        for event in chunks.split(_END):
            # Not every server writes a space after the colon.
            if event.startswith(_DATA) and (data := event[len(_DATA) :].strip()) != _DONE:
                self._take(self._decoded(data))
        return self._written()

    def answer(self, answer: bytes) -> Response:
        """Take a whole chat answer; return the response that it becomes. It has no events."""
        self.take_whole(answer)
        self.complete()
        return self.response

    def take_whole(self, answer: bytes) -> None:
        """Take a whole chat answer, and write no events from here on."""
        self._is_whole = True
        chunk = _decode(answer)
        if chunk.error is not None:
            raise EngineFailed(_FAILED)
        self._take(chunk)

    def stored(self) -> Response:
        """Return the response as it is stored."""
        return self.response

    def complete(self) -> None:
        """End the response, once: from here on it stays as it is. `end` reports it."""
        if self.response["status"] != "in_progress":
            return
        reason = INCOMPLETE.get(self._finish)
        status = "incomplete" if reason else "completed"
        self._end_items(status)
        self.response["status"] = status
        if reason:
            self.response["incomplete_details"] = {"reason": reason}
        else:
            self.response["completed_at"] = int(self._now())

    def stop(self, status: str, code: str = "", message: str = "") -> None:
        """End the response early: `failed` with an error, or `cancelled`."""
        self._begin()
        self._end_items("incomplete")
        self.response["status"] = status
        if code:
            self.response["error"] = {"code": code, "message": message}

    def end(self) -> bytes:
        """Return the last events of a stream that is complete."""
        self._begin()
        self.complete()
        self._report(self.response["status"])
        return self._written()

    def cancel(self) -> bytes:
        """Return the last events of a response that its caller cancelled."""
        self.stop("cancelled")
        # The SDK takes `response.cancelled` for an event of its audio API.
        self._report("incomplete")
        return self._written()

    def fail(self, error: dict[str, str]) -> bytes:
        """Return the last events of a stream that cannot be completed."""
        self.stop("failed")
        self.response["error"] = error
        self._report("failed")
        return self._written()

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._report("created")
            self._report("in_progress")

    def _decoded(self, data: bytes) -> _Chunk:
        try:
            return _decode(data)
        except EngineFailed as failure:
            # The response must not depend on who catches this: where the engine's end mark came in
            # the same read, the stream counts as whole.
            self.stop("failed", failure.code, failure.message)
            raise

    def _take(self, chunk: _Chunk) -> None:
        if self.response["status"] != "in_progress":
            return
        if chunk.error is not None:
            self.stop("failed", EngineFailed.code, _FAILED)
            return
        if chunk.usage is not None:
            self._note_usage(chunk.usage)
        for choice in chunk.choices[:1]:
            delta = choice.delta or choice.message or _Delta()
            self._add_reasoning(delta.reasoning or delta.reasoning_content)
            logprobs = choice.logprobs.content if choice.logprobs else None
            self._add_text(delta.content, logprobs or [])
            self._add_text(delta.refusal, [])
            for at, call in enumerate(delta.tool_calls or ()):
                # The calls of a whole answer have no index.
                self._add_call(call, at if choice.message else call.index)
            self._finish = choice.finish_reason or self._finish

    def _note_usage(self, usage: ChatUsage) -> None:
        self.response["usage"] = counts(usage)

    def _add_reasoning(self, text: str | None) -> None:
        if not text:
            return
        if self._open is None or self._open.item["type"] != "reasoning":
            self._end_items("completed")
            part = {"type": "reasoning_text", "text": ""}
            self._open = self._begin_item("rs", type="reasoning", summary=[], content=[])
            self._open.item["content"].append(part)
        self._open.pieces.append(text)
        self._event("response.reasoning_text.delta", self._open, content_index=0, delta=text)

    def _add_text(self, text: str | None, logprobs: list[dict[str, Any]]) -> None:
        if not text:
            return
        if self._open is None or self._open.item["type"] != "message":
            self._end_items("completed")
            self._open = self._begin_item(
                "msg", type="message", role="assistant", status="in_progress", content=[]
            )
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            self._event("response.content_part.added", self._open, content_index=0, part=part)
            self._open.item["content"].append(part)
        self._open.pieces.append(text)
        self._open.logprobs += logprobs
        self._event(
            "response.output_text.delta",
            self._open,
            content_index=0,
            delta=text,
            logprobs=logprobs,
        )

    def _add_call(self, delta: CallDelta, index: int) -> None:
        function = delta.function or FunctionDelta()
        call = self._calls.get(index)
        if call is None:
            self._end_open("completed")
            call = self._calls[index] = self._begin_item(
                "fc",
                type="function_call",
                status="in_progress",
                arguments="",
                call_id=delta.id or f"call_{self._key}{len(self.response['output'])}",
                name=function.name or "",
            )
        if function.arguments:
            call.pieces.append(function.arguments)
            self._event("response.function_call_arguments.delta", call, delta=function.arguments)

    def _begin_item(self, prefix: str, **fields: object) -> OpenItem:
        items = self.response["output"]
        place = len(items)
        item = {"id": f"{prefix}_{self._key}o{place}", **fields}
        self._write("response.output_item.added", {"output_index": place, "item": item})
        items.append(item)
        return OpenItem(item, place)

    def _end_items(self, status: str) -> None:
        """End all items that are open. Of several, all get the same status."""
        self._end_open(status)
        for call in self._calls.values():
            arguments = call.item["arguments"] = "".join(call.pieces)
            name = call.item["name"]
            self._event(
                "response.function_call_arguments.done", call, arguments=arguments, name=name
            )
            self._end_item(call, status)
        self._calls.clear()

    def _end_open(self, status: str) -> None:
        """End the text or reasoning that is being written."""
        opened, self._open = self._open, None
        if opened is None:
            return
        part = opened.item["content"][0]
        text = part["text"] = "".join(opened.pieces)
        if opened.item["type"] == "reasoning":
            self._event("response.reasoning_text.done", opened, content_index=0, text=text)
        else:
            logprobs = part["logprobs"] = opened.logprobs
            self._event(
                "response.output_text.done",
                opened,
                content_index=0,
                text=text,
                logprobs=logprobs,
            )
            self._event("response.content_part.done", opened, content_index=0, part=part)
        self._end_item(opened, status)

    def _end_item(self, opened: OpenItem, status: str) -> None:
        opened.item["status"] = status
        fields = {"output_index": opened.place, "item": opened.item}
        self._write("response.output_item.done", fields)

    def _event(self, type: str, opened: OpenItem, **fields: object) -> None:
        """Write an event about an item."""
        place = {"item_id": opened.item["id"], "output_index": opened.place}
        self._write(type, {**place, **fields})

    def _report(self, what: str) -> None:
        """Write an event that has the whole response."""
        self._write(f"response.{what}", {"response": self.response})

    def _write(self, type: str, fields: dict[str, Any]) -> None:
        if self._is_whole:
            return
        data = {"type": type, "sequence_number": self._number, **fields}
        self._number += 1
        self._events.append(b"event: %s\ndata: %s\n\n" % (type.encode(), msgspec.json.encode(data)))

    def _written(self) -> bytes:
        written = b"".join(self._events)
        self._events.clear()
        return written


def counts(usage: ChatUsage) -> dict[str, Any]:
    """Return usage in the shape of Responses."""
    cached, written = usage.prompt_tokens_details, usage.completion_tokens_details
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": (cached and cached.cached_tokens) or 0,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": (written and written.reasoning_tokens) or 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _decode(data: bytes) -> _Chunk:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as bad:
        raise EngineFailed("The engine's answer has no known shape.") from bad
