"""Writes the body of a request for an engine, and drops the fields that a caller may not set.

Reserved names are dropped and set by us, so no duplicate key ever goes upstream: parsers take the
last value, so the caller's own value could override one that was only inserted.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.engine.dialects.engine_calls import EngineCall
from penstock.records.decimals import whole
from penstock.records.request import InferenceRequest
from penstock.wire.json_body import Fields, is_given

# Fields that we set, labels that the engine does not need, and fields that only engines may send.
_DROPPED: Final = frozenset({
    "model", "stream_options", "priority", "cache_salt", "session_id", "request_id",
    "prompt_cache_key", "service_tier", "store", "metadata", "user", "options",
    "kv_transfer_params", "ec_transfer_params", "vllm_xargs",
    # With it, the counts of a stream that is cut would lag behind the tokens that were sent.
    "stream_interval",
})  # fmt: skip
_encode: Final = msgspec.json.encode
_LARGE_VALUE_BYTES: Final = 256 * 1024
_KEYS_MAX: Final = 1000
_KEY_CHARS_MAX: Final = 64
_keys: Final[dict[str, bytes]] = {}


def write_body(
    request: InferenceRequest, call: EngineCall, served_name: Raw, own: list[bytes]
) -> list[bytes | Raw]:
    """Return the body as pieces to send in order: the caller's fields but the reserved, and ours.

    The prompt is its own piece, and so is any other large value: a megabyte of it goes from the
    caller's bytes to the socket without being copied into a new body. `served_name` is JSON
    already. `own` are the fields that the engine's dialect adds, each with its comma.
    """
    fields = request.prompt.body
    # Without a limit an engine generates to the end of the context, where it stops in any case.
    is_unlimited = bool(call.output_limits) and not _is_limited(fields, call)
    # The loop below skips this name, so that a null of the caller's does not go upstream.
    limit = call.output_limits[0] if is_unlimited else call.prompt
    # Every name that is added here is dropped from the caller's fields, so that none occurs twice.
    whole_body: list[bytes | Raw] = [call.opening, fields[call.prompt]]
    pieces: list[bytes | Raw] = [b',"model":', served_name]
    for name, value in fields.items():
        if name in _DROPPED or name in (call.prompt, limit):
            continue
        pieces.append(_key(name))
        if len(value) > _LARGE_VALUE_BYTES:
            whole_body.append(b"".join(pieces))
            whole_body.append(value)
            pieces = []
        else:
            pieces.append(value)
    if is_unlimited:
        pieces.append(_key(limit))
        pieces.append(whole(request.model.default_output_tokens))
    if call.fixed:
        pieces.append(call.fixed)
    pieces.extend(own)
    pieces.append(b"}")
    whole_body.append(b"".join(pieces))
    return whole_body


def _key(name: str) -> bytes:
    """Return a name as written before its value, from a cache: most requests use the same few."""
    known = _keys.get(name)
    if known is None:
        known = b",%s:" % _encode(name)
        if len(name) <= _KEY_CHARS_MAX:
            if len(_keys) >= _KEYS_MAX:
                _keys.clear()
            _keys[name] = known
    return known


def _is_limited(fields: Fields, call: EngineCall) -> bool:
    return any(is_given(fields, name) for name in call.output_limits)
