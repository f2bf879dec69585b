"""Reads the `endpoint-load-metrics` header that vLLM sets on answers that are not streamed."""

import math

import msgspec

from penstock.records.engine_load import EngineLoad

_PREFIX = b"JSON "
_BYTES_MAX = 4096
_WAITING_MAX = 2**40


class _Named(msgspec.Struct):
    num_requests_waiting: float = 0.0
    kv_cache_usage_perc: float = 0.0


class _Report(msgspec.Struct):
    named_metrics: _Named


_decoder = msgspec.json.Decoder(_Report)


def read_load(value: bytes) -> EngineLoad | None:
    """Return the load in a header; None when it is not in the format we asked for."""
    if not value.startswith(_PREFIX) or len(value) > _BYTES_MAX:
        return None
    try:
        named = _decoder.decode(memoryview(value)[len(_PREFIX) :]).named_metrics
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    waiting, kv_use = named.num_requests_waiting, named.kv_cache_usage_perc
    if not (math.isfinite(waiting) and waiting >= 0 and 0 <= kv_use <= 1):
        return None
    return EngineLoad(int(min(waiting, _WAITING_MAX)), kv_use)
