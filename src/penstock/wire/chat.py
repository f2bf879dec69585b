"""A chat request in OpenAI's shape: some of it read, strictly; the rest goes through untouched."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from penstock.errors import InvalidRequest
from penstock.records.model import Capability
from penstock.wire.json_body import DEPTH_MAX, Field, Fields, is_container, refuse_deep
from penstock.wire.messages import Media, decode_messages, look_at
from penstock.wire.prompt_family import prompt_family
from penstock.wire.response_format import normalised


class StreamOptions(msgspec.Struct):
    """OpenAI's `include_usage`, and vLLM's count in every chunk."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Options(msgspec.Struct):
    """Workers AI's options, as they come in a body."""

    reject_if_busy: bool | None = msgspec.field(default=None, name="rejectIfBusy")
    queue_request: bool | None = msgspec.field(default=None, name="queueRequest")


class ChatRequest(msgspec.Struct):
    """The fields that go on, and what the path must know about them."""

    fields: Fields
    messages: list[Fields]
    media: Media
    is_stream: bool
    wants_usage: bool
    wants_continuous_usage: bool
    choices: int
    cache_key: str
    conversation: str
    options: Options
    needs: frozenset[Capability]
    prompt_family: str
    # Bytes of messages, tools and the like without their images, and images: what the prompt is
    # estimated by.
    prompt_bytes: int
    images: int
    # Tokens that one choice may have at most; None when the caller does not say.
    max_tokens: int | None
    workflow: str


class _Metadata(msgspec.Struct):
    workflow: str = ""


class _Conversation(msgspec.Struct):
    id: str = ""


_NO_STREAM_OPTIONS: Final = StreamOptions()
_NO_OPTIONS: Final = Options()

MODEL = Field("model", msgspec.json.Decoder(str), "")
_STREAM = Field("stream", msgspec.json.Decoder(bool | None), None)
_STREAM_OPTIONS = Field("stream_options", msgspec.json.Decoder(StreamOptions | None), None)
_CHOICES = Field("n", msgspec.json.Decoder(Annotated[int, Meta(ge=1, le=128)] | None), None)
_TOKENS = msgspec.json.Decoder(Annotated[int, Meta(ge=0)] | None)
_MAX_TOKENS = Field("max_tokens", _TOKENS, None)
_MAX_COMPLETION_TOKENS = Field("max_completion_tokens", _TOKENS, None)
_CACHE_KEY = Field("prompt_cache_key", msgspec.json.Decoder(str | None), None)
OPTIONS = Field("options", msgspec.json.Decoder(Options | None), None)
_METADATA = msgspec.json.Decoder(_Metadata | None)
_CONVERSATION = msgspec.json.Decoder(_Conversation | str | None)
_TOOLS = Field("tools", msgspec.json.Decoder(list[Raw] | None), None)

_NOTHING: Final = frozenset[Capability]()
# Fields that are checked by their own readers, or are scalars the engine checks itself.
_LOOKED_AT = frozenset({
    "messages", "model", "stream", "n", "response_format", "max_tokens", "max_completion_tokens",
    "prompt_cache_key",
})  # fmt: skip


def read_chat(
    fields: Fields, media_hosts: frozenset[str], messages: list[Fields] | None = None
) -> ChatRequest:
    """Read and check one chat request. `fields` is changed: options are taken out of it.

    `messages` are those of the fields where they are decoded already.
    """
    raw = fields.get("messages")
    if raw is None:
        raise InvalidRequest("`messages` is required.", param="messages")
    if messages is None:
        messages = decode_messages(raw)
    media = look_at(messages, media_hosts)
    needs = _NOTHING
    if media.images:
        needs = needs | {Capability.VISION}
    if "tools" in fields and _has_tools(fields):
        needs = needs | {Capability.TOOLS}
    if "response_format" in fields and normalised(fields):
        needs = needs | {Capability.STRUCTURED_OUTPUT}
    prompt_bytes = len(raw) - media.image_bytes
    for name, value in fields.items():
        if name not in _LOOKED_AT and is_container(value):
            refuse_deep(value, levels_max=DEPTH_MAX - 1, param=name)
            # Tools, documents, arguments of the template: whatever may become a prompt counts.
            prompt_bytes += len(value)
    is_stream = bool(_STREAM.read(fields))
    stream_options = _STREAM_OPTIONS.read(fields)
    if stream_options is not None and not is_stream:
        raise InvalidRequest(
            "`stream_options` is only allowed with `stream: true`.", param="stream_options"
        )
    stream_options = stream_options or _NO_STREAM_OPTIONS
    max_tokens = _MAX_TOKENS.read(fields)
    max_completion_tokens = _MAX_COMPLETION_TOKENS.read(fields)
    options = OPTIONS.read(fields) or _NO_OPTIONS
    fields.pop("options", None)
    return ChatRequest(
        fields=fields,
        messages=messages,
        media=media,
        is_stream=is_stream,
        wants_usage=bool(stream_options.include_usage),
        wants_continuous_usage=bool(stream_options.continuous_usage_stats),
        choices=_CHOICES.read(fields) or 1,
        cache_key=_CACHE_KEY.read(fields) or "",
        conversation=_conversation(fields["conversation"]) if "conversation" in fields else "",
        options=options,
        needs=needs,
        prompt_family=prompt_family(fields, messages),
        prompt_bytes=prompt_bytes,
        images=media.images,
        # vLLM goes by the newer name where both are given.
        max_tokens=max_tokens if max_completion_tokens is None else max_completion_tokens,
        workflow=_workflow(fields["metadata"]) if "metadata" in fields else "",
    )


def _has_tools(fields: Fields) -> bool:
    # The body is known to be JSON: an array that begins with an object is a list, and not empty.
    if bytes(memoryview(fields["tools"])[:2]) == b"[{":
        return True
    return bool(_TOOLS.read(fields))


def _workflow(raw: Raw) -> str:
    """The label in OpenAI's `metadata`. What else is in there is the caller's own business."""
    try:
        metadata = _METADATA.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return metadata.workflow if metadata is not None else ""


def _conversation(raw: Raw) -> str:
    """The id in OpenAI's `conversation`, which is a name or an object. The engine knows neither."""
    try:
        conversation = _CONVERSATION.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if isinstance(conversation, _Conversation):
        return conversation.id
    return conversation or ""
