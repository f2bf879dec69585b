"""The body of a request for any server that speaks OpenAI's API, such as Ollama or llama.cpp's.

It gets no field that OpenAI's API does not have: some servers refuse what they do not know. So
accounts share its cache, and a stream reports its usage once, at its end.
"""

from typing import Final

from msgspec import Raw

from penstock.engine.dialects.engine_calls import CALLS
from penstock.engine.dialects.request_body import write_body
from penstock.records.request import InferenceRequest

_ASK_FOR_USAGE: Final = b',"stream_options":{"include_usage":true}'


def request_body(request: InferenceRequest, served_name: Raw) -> list[bytes | Raw]:
    """Return the body as pieces to send in order. `served_name` is JSON already."""
    call = CALLS[request.api]
    own = [_ASK_FOR_USAGE] if request.prompt.is_stream and call.has_stream_options else []
    return write_body(request, call, served_name, own)
