"""Converts a whole chat completion to a stream: one delta with everything."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.errors import EngineFailed
from penstock.wire.json_body import Fields, given

_DONE: Final = b"data: [DONE]\n\n"
# Top-level fields that a completion and its chunks share.
_SAME: Final = ("id", "created", "model", "system_fingerprint", "service_tier")


class _Choice(msgspec.Struct):
    message: Fields
    index: int = 0
    finish_reason: Raw = Raw(b"null")
    logprobs: Raw = Raw(b"null")


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: Raw | UnsetType = UNSET


_completion_decoder = msgspec.json.Decoder(_Completion)
_fields_decoder = msgspec.json.Decoder(Fields)
_calls_decoder = msgspec.json.Decoder(list[Fields] | None)
_encoder = msgspec.json.Encoder()


def whole_events(answer: bytes, *, with_usage: bool) -> bytes:
    """Return the events of one completion: each choice's message and end, and usage if asked."""
    try:
        completion = _completion_decoder.decode(answer)
        top = _fields_decoder.decode(answer)
        deltas = [_delta(choice.message) for choice in completion.choices]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
        raise EngineFailed(f"The engine's answer has no known shape: {bad}") from None
    head: dict[str, object] = {name: top[name] for name in _SAME if name in top}
    head["object"] = "chat.completion.chunk"
    chunks: list[dict[str, object]] = []
    for choice, delta in zip(completion.choices, deltas, strict=True):
        begun = {"index": choice.index, "delta": delta, "logprobs": choice.logprobs}
        ended = {"index": choice.index, "delta": {}, "logprobs": None}
        chunks.append({**head, "choices": [{**begun, "finish_reason": None}]})
        chunks.append({**head, "choices": [{**ended, "finish_reason": choice.finish_reason}]})
    usage = given(completion.usage)
    if with_usage and usage is not None:
        chunks.append({**head, "choices": [], "usage": usage})
    return b"".join(b"data: %s\n\n" % _encoder.encode(chunk) for chunk in chunks) + _DONE


def _delta(message: Fields) -> dict[str, object]:
    """Return a message as a delta: in streams tool calls have an index, and nulls are left out."""
    delta: dict[str, object] = {name: raw for name, raw in message.items() if bytes(raw) != b"null"}
    delta.setdefault("role", "assistant")
    calls = _calls_decoder.decode(message["tool_calls"]) if "tool_calls" in message else None
    if calls:
        delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
    else:
        delta.pop("tool_calls", None)
    return delta
