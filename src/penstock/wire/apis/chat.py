"""Reads some fields of a chat request, strictly; the rest goes to the engine untouched."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from penstock.errors import InvalidRequest
from penstock.wire.apis.chat_options import NamedConversation, StreamOptions
from penstock.wire.apis.prompt_fields import needs_of, take_options, weigh, workflow_of
from penstock.wire.apis.prompt_request import CACHE_KEY, STREAM, TOKENS, PromptRequest
from penstock.wire.apis.response_format import normalised
from penstock.wire.json_body import Field, Fields, check_items
from penstock.wire.prompt.media import Media
from penstock.wire.prompt.message_media import decode_messages, look_at
from penstock.wire.prompt.parsed_body import ParsedBody

_NO_STREAM_OPTIONS: Final = StreamOptions()
# Shared by all prompts that are only texts; it is never changed.
_NO_MEDIA: Final = Media()

_STREAM_OPTIONS = Field("stream_options", msgspec.json.Decoder(StreamOptions | None), None)
_CHOICES = Field("n", msgspec.json.Decoder(Annotated[int, Meta(ge=1, le=128)] | None), None)
_MAX_TOKENS = Field("max_tokens", TOKENS, None)
_MAX_COMPLETION_TOKENS = Field("max_completion_tokens", TOKENS, None)
_CONVERSATION = msgspec.json.Decoder(NamedConversation | str | None)

# Fields that are checked by their own readers, or are scalars the engine checks itself.
_LOOKED_AT: Final = frozenset({
    "messages", "model", "stream", "n", "response_format", "max_tokens", "max_completion_tokens",
    "prompt_cache_key",
})  # fmt: skip


def read_chat(
    fields: Fields,
    media_hosts: frozenset[str],
    parsed: ParsedBody | None = None,
) -> PromptRequest:
    """Read and check one chat request. `fields` is changed: options are taken out of it.

    `parsed` is what is known of these fields already.
    """
    raw = fields.get("messages")
    if raw is None:
        raise InvalidRequest("`messages` is required.", param="messages")
    messages = None if parsed is None else parsed.messages
    known = None if parsed is None else parsed.known
    if messages is None:
        messages = decode_messages(raw)
    check_items(messages, "messages")
    if parsed is not None and parsed.has_only_texts and messages:
        media = _NO_MEDIA
    else:
        media = look_at(messages, media_hosts, known)
    is_structured = "response_format" in fields and normalised(fields)
    prompt_bytes = len(raw) - media.image_bytes
    if parsed is None or not parsed.has_only_scalars:
        prompt_bytes += weigh(fields, _LOOKED_AT)
    is_stream = bool(STREAM.read(fields))
    stream_options = read_stream_options(fields, is_stream=is_stream)
    max_tokens = _MAX_TOKENS.read(fields)
    max_completion_tokens = _MAX_COMPLETION_TOKENS.read(fields)
    return PromptRequest(
        fields=fields,
        messages=messages,
        media=media,
        is_stream=is_stream,
        wants_usage=bool(stream_options.include_usage),
        wants_continuous_usage=bool(stream_options.continuous_usage_stats),
        choices=read_choices(fields),
        cache_key=CACHE_KEY.read(fields) or "",
        conversation=_conversation(fields["conversation"]) if "conversation" in fields else "",
        options=take_options(fields),
        needs=needs_of(fields, media, is_structured=is_structured),
        prompt_bytes=prompt_bytes,
        images=media.images,
        # vLLM uses the newer name where both are given.
        max_tokens=max_tokens if max_completion_tokens is None else max_completion_tokens,
        workflow=workflow_of(fields),
    )


def read_stream_options(fields: Fields, *, is_stream: bool) -> StreamOptions:
    """Return the options about usage in a stream; refuse them where nothing is streamed."""
    stream_options = _STREAM_OPTIONS.read(fields)
    if stream_options is not None and not is_stream:
        raise InvalidRequest(
            "`stream_options` is only allowed with `stream: true`.", param="stream_options"
        )
    return stream_options or _NO_STREAM_OPTIONS


def read_choices(fields: Fields) -> int:
    return _CHOICES.read(fields) or 1


def _conversation(raw: Raw) -> str:
    """Return the id in OpenAI's `conversation`, a name or an object. Engines know neither."""
    try:
        conversation = _CONVERSATION.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if isinstance(conversation, NamedConversation):
        return conversation.id
    return conversation or ""
