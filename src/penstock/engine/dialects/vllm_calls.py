"""vLLM's APIs: where each is, which field is its prompt, what else it knows."""

from typing import Final

from penstock.records.request import Api


class EngineCall:
    """One of the engine's APIs: where it is, which field is its prompt, what else it knows."""

    def __init__(
        self,
        path: str,
        prompt: str,
        output_limits: tuple[str, ...] = (),
        *,
        has_stream_options: bool = False,
        fixed: bytes = b"",
        id_prefix: bytes = b"",
    ) -> None:
        self.path = path
        self.prompt = prompt
        # What a body begins with: the name of the prompt.
        self.opening = b'{"%s":' % prompt.encode()
        # The names by which a caller bounds the output; the first one is set where none is given.
        self.output_limits = output_limits
        self.has_stream_options = has_stream_options
        # Set whatever the caller says.
        self.fixed = fixed
        # Where the engine goes by an id in the body, not by the header that has ours: what it
        # begins with, because answers carry it.
        self.id_prefix = id_prefix


CALLS: Final = {
    Api.CHAT: EngineCall(
        "/v1/chat/completions",
        "messages",
        ("max_tokens", "max_completion_tokens"),
        has_stream_options=True,
    ),
    Api.COMPLETIONS: EngineCall(
        "/v1/completions", "prompt", ("max_tokens",), has_stream_options=True
    ),
    Api.EMBEDDINGS: EngineCall("/v1/embeddings", "input"),
    Api.MESSAGES: EngineCall("/v1/messages", "messages", ("max_tokens",)),
    Api.RESPONSES: EngineCall(
        "/v1/responses",
        "input",
        ("max_output_tokens",),
        # An engine's own memory is lost with it, and no other replica has it.
        fixed=b',"store":false',
        id_prefix=b"resp_",
    ),
}
