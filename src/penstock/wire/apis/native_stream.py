"""Converts a chat stream to the native family's: `data: {"response": "…"}`, tool deltas on top.

Not the hot path: each event is parsed and written anew.
"""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.wire.json_body import given

_DATA = b"data: "
_DONE = b"data: [DONE]\n\n"


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    tool_calls: list[Raw] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class NativeChunk(msgspec.Struct, omit_defaults=True):
    """One event as Workers AI's native models send it."""

    response: str | None
    tool_calls: list[Raw] | None = None
    usage: Raw | None = None


_decoder = msgspec.json.Decoder(_Chunk)
_encoder = msgspec.json.Encoder()


def native_events(events: bytes) -> bytes:
    """Convert one or more whole OpenAI events to native ones."""
    return b"".join(_native(event) for event in events.split(b"\n\n") if event)


def _native(event: bytes) -> bytes:
    if not event.startswith(_DATA):
        return event + b"\n\n"
    if event + b"\n\n" == _DONE:
        return _DONE
    try:
        chunk = _decoder.decode(event[len(_DATA) :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""
    if given(chunk.error) is not None:
        return event + b"\n\n"
    usage = given(chunk.usage)
    if not chunk.choices and usage is None:
        return b""
    delta = chunk.choices[0].delta if chunk.choices else _Delta()
    native = NativeChunk(delta.content or "", delta.tool_calls, usage)
    return _DATA + _encoder.encode(native) + b"\n\n"
