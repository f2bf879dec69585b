"""vLLM's APIs: where each is, which field is its prompt, what else it knows."""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.records.request import Api


class Call(msgspec.Struct, frozen=True):
    """One of the engine's APIs: where it is, which field is its prompt, what else it knows."""

    path: str
    prompt: str
    # The names by which a caller bounds the output; the first one is set where none is given.
    output_limits: tuple[str, ...] = ()
    has_stream_options: bool = False
    # Set whatever the caller says.
    fixed: tuple[tuple[str, Raw], ...] = ()
    # Where the engine goes by an id in the body, not by the header that has ours: what it begins
    # with, because answers carry it.
    id_prefix: str = ""


CALLS: Final = {
    Api.CHAT: Call(
        "/v1/chat/completions",
        "messages",
        ("max_tokens", "max_completion_tokens"),
        has_stream_options=True,
    ),
    Api.COMPLETIONS: Call("/v1/completions", "prompt", ("max_tokens",), has_stream_options=True),
    Api.EMBEDDINGS: Call("/v1/embeddings", "input"),
    Api.MESSAGES: Call("/v1/messages", "messages", ("max_tokens",)),
    Api.RESPONSES: Call(
        "/v1/responses",
        "input",
        ("max_output_tokens",),
        # An engine's own memory is lost with it, and no other replica has it.
        fixed=(("store", Raw(b"false")),),
        id_prefix="resp_",
    ),
}
