"""The events of a background response, made of the response itself. Pure.

What a reader has seen is never taken back: before the response has ended there are two events, and
its end adds all others. They are the same every time, so a stream can be resumed after any of them.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from penstock.wire.apis.response_object import Response

Event = dict[str, Any]

# The event that ends a stream, by the response's status. openai's SDK takes `response.cancelled`
# for an event of its audio API.
_ENDS: Final = {
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "incomplete",
}
# What a response does not have before it has ended.
_OPEN: Final[Response] = {
    "output": [],
    "usage": None,
    "completed_at": None,
    "incomplete_details": None,
    "error": None,
}


def response_events(response: Response) -> list[bytes]:
    """Return all events that a response has so far, as they are written; the first is number 0."""
    return [_written(number, event) for number, event in enumerate(_events(response))]


def _events(response: Response) -> Iterator[Event]:
    queued = {**response, **_OPEN, "status": "queued"}
    yield {"type": "response.created", "response": queued}
    yield {"type": "response.queued", "response": queued}
    end = _ENDS.get(response["status"])
    if end is None:
        return
    yield {"type": "response.in_progress", "response": {**queued, "status": "in_progress"}}
    for place, item in enumerate(response["output"]):
        yield from _item_events(place, item)
    yield {"type": f"response.{end}", "response": response}


def _item_events(place: int, item: Event) -> Iterator[Event]:
    about = {"item_id": item["id"], "output_index": place}
    begun = {**item, "status": "in_progress"}
    if item["type"] == "function_call":
        begun["arguments"] = ""
    else:
        begun["content"] = []
    yield {"type": "response.output_item.added", "output_index": place, "item": begun}
    if item["type"] == "function_call":
        yield from _call_events(about, item)
    elif item["type"] == "reasoning":
        for at, part in enumerate(item.get("content") or ()):
            yield from _reasoning_events({**about, "content_index": at}, part)
    else:
        for at, part in enumerate(item.get("content") or ()):
            yield from _text_events({**about, "content_index": at}, part)
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _call_events(about: Event, item: Event) -> Iterator[Event]:
    arguments, name = item["arguments"], item["name"]
    kind = "response.function_call_arguments"
    yield {"type": f"{kind}.delta", **about, "delta": arguments}
    yield {"type": f"{kind}.done", **about, "arguments": arguments, "name": name}


def _reasoning_events(about: Event, part: Event) -> Iterator[Event]:
    yield {"type": "response.reasoning_text.delta", **about, "delta": part["text"]}
    yield {"type": "response.reasoning_text.done", **about, "text": part["text"]}


def _text_events(about: Event, part: Event) -> Iterator[Event]:
    text, logprobs = part["text"], part.get("logprobs") or []
    empty = {**part, "text": "", "logprobs": []}
    yield {"type": "response.content_part.added", **about, "part": empty}
    kind = "response.output_text"
    yield {"type": f"{kind}.delta", **about, "delta": text, "logprobs": logprobs}
    yield {"type": f"{kind}.done", **about, "text": text, "logprobs": logprobs}
    yield {"type": "response.content_part.done", **about, "part": part}


def _written(number: int, event: Event) -> bytes:
    data = {"type": event["type"], "sequence_number": number, **event}
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), msgspec.json.encode(data))
