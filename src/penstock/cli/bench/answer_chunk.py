"""One event of a streamed answer, as far as the benchmark's client reads it."""

import msgspec

from penstock.wire.usage_shapes import WireUsage


class Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[object] | None = None


class _Choice(msgspec.Struct):
    delta: Delta = msgspec.field(default_factory=Delta)


class _Fault(msgspec.Struct):
    code: str | int | None = None
    type: str | None = None
    message: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: WireUsage | None = None
    error: _Fault | str | None = None


decode_chunk = msgspec.json.Decoder(_Chunk).decode


def fault_in(body: bytes) -> str:
    """Return the error in a body that is no stream; empty if it has none."""
    try:
        fault = decode_chunk(body).error
    except msgspec.DecodeError:
        return ""
    return "" if fault is None else name_of(fault)


def name_of(fault: _Fault | str) -> str:
    """Return a short name of an error."""
    if isinstance(fault, str):
        return fault[:60]
    # vLLM's code only repeats the status; its type is more specific.
    code = fault.code if isinstance(fault.code, str) else None
    return (code or fault.type or "error")[:60]
