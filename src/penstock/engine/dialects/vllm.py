"""vLLM's dialect: the body that goes up, and the fields a caller may not set.

Reserved names are dropped and set by us, so no duplicate key ever goes upstream: parsers are
last-wins, and a value that was merely spliced in could be overridden by the caller's own.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.engine.dialects.vllm_calls import CALLS, Call
from penstock.records.request import InferenceRequest
from penstock.wire.json_body import Fields, is_given

# Ours to set, labels that are not the engine's business, and what only another engine may say.
_DROPPED: Final = frozenset({
    "model", "stream_options", "priority", "cache_salt", "session_id", "request_id",
    "prompt_cache_key", "service_tier", "store", "metadata", "user", "options",
    "kv_transfer_params", "ec_transfer_params", "vllm_xargs",
    # Counts of a stream that is cut would lag behind what was sent.
    "stream_interval",
})  # fmt: skip
_ASK_FOR_USAGE: Final = b',"stream_options":{"include_usage":true,"continuous_usage_stats":true}'
_encode: Final = msgspec.json.encode


def request_body(request: InferenceRequest, served_name: Raw) -> tuple[bytes, Raw, bytes]:
    """The caller's fields, less what is reserved, plus what is ours: pieces to send in order.

    The prompt is its own piece: a megabyte of it goes from the caller's bytes to the socket
    without being copied into a new body. `served_name` is JSON already.
    """
    call = CALLS[request.api]
    theirs: Fields = {}
    for name, value in request.body.items():
        if name not in _DROPPED:
            theirs[name] = value
    prompt = theirs.pop(call.prompt)
    if call.output_limits and not _is_limited(theirs, call):
        # vLLM would go on to the end of the context; where less is left it stops there by itself.
        theirs[call.output_limits[0]] = Raw(str(request.model.default_output_tokens).encode())
    # All names below are among the dropped, so that none of them stands there twice.
    pieces: list[bytes | Raw] = [
        b',"model":',
        served_name,
        b',"cache_salt":"',
        request.cache_salt.encode(),
        b'"',
    ]
    if theirs:
        pieces.append(b",")
        pieces.append(_encode(theirs)[1:-1])
    if call.fixed:
        pieces.append(call.fixed)
    if request.is_stream and call.has_stream_options:
        pieces.append(_ASK_FOR_USAGE)
    if request.engine_priority:
        # vLLM refuses any but 0 unless it was started with `--scheduling-policy priority`.
        pieces.append(b',"priority":%d' % request.engine_priority)
    if call.id_prefix:
        pieces.append(b',"request_id":"%s%s"' % (call.id_prefix, request.id.encode()))
    if request.session:
        # Its key, not its name: two accounts may use the same, and the engine must tell them apart.
        key = hex(request.session_key)[2:].rjust(16, "0")
        pieces.append(f',"session_id":"{key}"'.encode())
    pieces.append(b"}")
    return call.opening, prompt, b"".join(pieces)


def _is_limited(fields: Fields, call: Call) -> bool:
    for name in call.output_limits:  # noqa: SIM110 - a loop is compiled, a generator is called
        if is_given(fields, name):
            return True
    return False
