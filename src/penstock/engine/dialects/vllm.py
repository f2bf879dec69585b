"""The body of a request for vLLM: an isolated cache, usage in every chunk, priority and session."""

from typing import Final

from msgspec import Raw

from penstock.engine.dialects.engine_calls import CALLS
from penstock.engine.dialects.request_body import write_body
from penstock.records.request import InferenceRequest

_ASK_FOR_USAGE: Final = b',"stream_options":{"include_usage":true,"continuous_usage_stats":true}'


def request_body(request: InferenceRequest, served_name: Raw) -> list[bytes | Raw]:
    """Return the body as pieces to send in order. `served_name` is JSON already."""
    call = CALLS[request.api]
    own = [b',"cache_salt":"%s"' % request.prompt.cache_salt.encode()]
    if request.prompt.is_stream and call.has_stream_options:
        own.append(_ASK_FOR_USAGE)
    if request.placement.engine_priority:
        # vLLM refuses any but 0 unless it was started with `--scheduling-policy priority`.
        own.append(b',"priority":%d' % request.placement.engine_priority)
    if call.id_prefix:
        own.append(b',"request_id":"%s%s"' % (call.id_prefix, request.id.encode()))
    if request.labels.session:
        # The key, not the name: the engine must distinguish two accounts that use the same name.
        own.append(b',"session_id":"%016x"' % request.placement.session_key)
    return write_body(request, call, served_name, own)
