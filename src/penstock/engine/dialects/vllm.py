"""vLLM's dialect: the body that goes up, and the fields a caller may not set.

Reserved names are dropped and set by us, so no duplicate key ever goes upstream: parsers are
last-wins, and a value that was merely spliced in could be overridden by the caller's own.
"""

import msgspec
from msgspec import Raw

from penstock.engine.dialects.vllm_calls import CALLS
from penstock.records.request import InferenceRequest
from penstock.wire.json_body import is_given

# Ours to set, labels that are not the engine's business, and what only another engine may say.
_DROPPED = frozenset({
    "model", "stream_options", "priority", "cache_salt", "session_id", "request_id",
    "prompt_cache_key", "service_tier", "store", "metadata", "user", "options",
    "kv_transfer_params", "ec_transfer_params", "vllm_xargs",
    # Counts of a stream that is cut would lag behind what was sent.
    "stream_interval",
})  # fmt: skip
_ASK_FOR_USAGE = Raw(b'{"include_usage":true,"continuous_usage_stats":true}')


def request_body(request: InferenceRequest, served_name: Raw) -> tuple[bytes, Raw, bytes]:
    """The caller's fields, less what is reserved, plus what is ours: pieces to send in order.

    The prompt is its own piece: a megabyte of it goes from the caller's bytes to the socket
    without being copied into a new body. `served_name` is JSON already.
    """
    call = CALLS[request.api]
    body = {name: value for name, value in request.body.items() if name not in _DROPPED}
    prompt = body.pop(call.prompt)
    if call.output_limits and not any(is_given(body, name) for name in call.output_limits):
        # vLLM would go on to the end of the context; where less is left it stops there by itself.
        body[call.output_limits[0]] = Raw(b"%d" % request.model.default_output_tokens)
    body.update(call.fixed)
    body["model"] = served_name
    body["cache_salt"] = Raw(b'"%s"' % request.cache_salt.encode())
    if request.is_stream and call.has_stream_options:
        body["stream_options"] = _ASK_FOR_USAGE
    if request.engine_priority:
        # vLLM refuses any but 0 unless it was started with `--scheduling-policy priority`.
        body["priority"] = Raw(b"%d" % request.engine_priority)
    if call.id_prefix:
        body["request_id"] = Raw(b'"%s%s"' % (call.id_prefix.encode(), request.id.encode()))
    if request.session:
        # Its key, not its name: two accounts may use the same, and the engine must tell them apart.
        body["session_id"] = Raw(b'"%016x"' % request.session_key)
    rest = msgspec.json.encode(body)
    return b'{"%s":' % call.prompt.encode(), prompt, b"," + rest[1:]
