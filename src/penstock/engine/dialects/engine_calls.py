"""Engines' APIs: the path, the prompt's field and the options of each."""

from typing import Final

from penstock.records.request import Api


class EngineCall:
    """One of the engine's APIs: its path, the field of its prompt, and its options."""

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
        # The beginning of a body: the prompt's field comes first.
        self.opening = b'{"%s":' % prompt.encode()
        # The names by which a caller bounds the output; the first one is set where none is given.
        self.output_limits = output_limits
        self.has_stream_options = has_stream_options
        # Fields that are set whatever the caller sends.
        self.fixed = fixed
        # For an API that takes the request's id from the body, not from our header: the prefix of
        # that id, because answers carry it.
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
        # Responses stored in an engine are lost with it, and no other replica has them.
        fixed=b',"store":false',
        id_prefix=b"resp_",
    ),
}
