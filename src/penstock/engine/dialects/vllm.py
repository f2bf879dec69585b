"""vLLM's dialect: the body that goes up, and the fields a caller may not set.

Reserved names are dropped and set by us, so no duplicate key ever goes upstream: parsers are
last-wins, and a value that was merely spliced in could be overridden by the caller's own.
"""

import hashlib

import msgspec
from msgspec import Raw

from penstock.records.request import InferenceRequest
from penstock.wire.json_body import is_given

CHAT_PATH = "/v1/chat/completions"

# Ours to set, labels that are not the engine's business, and what only another engine may say.
_DROPPED = frozenset({
    "model", "stream_options", "priority", "cache_salt", "session_id", "request_id",
    "prompt_cache_key", "service_tier", "store", "metadata", "user", "options",
    "kv_transfer_params", "ec_transfer_params", "vllm_xargs",
})  # fmt: skip
_ASK_FOR_USAGE = Raw(b'{"include_usage":true,"continuous_usage_stats":true}')


def chat_body(request: InferenceRequest, served_name: Raw) -> tuple[bytes, Raw, bytes]:
    """The caller's fields, less what is reserved, plus what is ours: pieces to send in order.

    `messages` is its own piece: a megabyte of prompt goes from the caller's bytes to the socket
    without being copied into a new body. `served_name` is JSON already.
    """
    body = {name: value for name, value in request.body.items() if name not in _DROPPED}
    messages = body.pop("messages")
    if not (is_given(body, "max_tokens") or is_given(body, "max_completion_tokens")):
        # vLLM would go on to the end of the context; where less is left it stops there by itself.
        body["max_tokens"] = Raw(b"%d" % request.model.default_output_tokens)
    body["model"] = served_name
    body["cache_salt"] = Raw(b'"%s"' % request.cache_salt.encode())
    if request.is_stream:
        body["stream_options"] = _ASK_FOR_USAGE
    if request.engine_priority:
        # vLLM refuses any but 0 unless it was started with `--scheduling-policy priority`.
        body["priority"] = Raw(b"%d" % request.engine_priority)
    if request.session:
        body["session_id"] = Raw(b'"%s"' % _scoped_session(request).encode())
    rest = msgspec.json.encode(body)
    return b'{"messages":', messages, b"," + rest[1:]


def _scoped_session(request: InferenceRequest) -> str:
    """Two accounts may use the same session name: the engine must not see them as one."""
    scoped = f"{request.account}\0{request.session}".encode()
    return hashlib.blake2b(scoped, digest_size=16).hexdigest()
