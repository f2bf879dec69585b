"""Reads some fields of a request in Anthropic's Messages; the rest goes to the engine untouched.

Media are in the `source` of a block, or of a block inside a tool's result.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.apis.prompt_fields import needs_of, take_options, weigh, workflow_of
from penstock.wire.apis.prompt_request import CACHE_KEY, STREAM, TOKENS, PromptRequest
from penstock.wire.json_body import (
    DEPTH_MAX,
    Field,
    Fields,
    check_count,
    check_items,
    is_container,
    is_given,
    refuse_deep,
)
from penstock.wire.prompt.media import Images, Media
from penstock.wire.prompt.message_media import check_url, decode_messages

_MAX_TOKENS = Field("max_tokens", TOKENS, None)
_LOOKED_AT: Final = frozenset({"messages", "system", "output_config"})
_ARRAY: Final = ord("[")
_BLOCKS_DEPTH_MAX: Final = 4
_SYSTEM: Final = Raw(b'"system"')


class _Source(msgspec.Struct):
    """Where the bytes of an image are: here, in base64, or at an address."""

    type: str = "base64"
    url: str | None = None
    data: str | None = None
    media_type: str = "image/jpeg"


class _OutputConfig(msgspec.Struct):
    format: dict[str, Raw] | None = None


_OUTPUT_CONFIG = Field("output_config", msgspec.json.Decoder(_OutputConfig | None), None)
_source_decoder = msgspec.json.Decoder(_Source | None)
_blocks_decoder = msgspec.json.Decoder(list[Fields])


def read_messages(fields: Fields, media_hosts: frozenset[str]) -> PromptRequest:
    """Read and check one request. `fields` is changed: options are taken out of it."""
    raw = fields.get("messages")
    if raw is None:
        raise InvalidRequest("`messages` is required.", param="messages")
    messages = decode_messages(raw)
    if not messages:
        raise InvalidRequest("`messages` is empty: send at least one message.", param="messages")
    check_items(messages, "messages")
    prompt_bytes = len(raw)
    first = 0
    if is_given(fields, "system"):
        first = 1
        messages.insert(0, {"role": _SYSTEM, "content": fields["system"]})
        prompt_bytes += len(fields["system"])
    media = _look_at(messages, media_hosts, first)
    is_structured = "output_config" in fields and _is_structured(fields)
    return PromptRequest(
        fields=fields,
        messages=messages,
        media=media,
        is_stream=bool(STREAM.read(fields)),
        cache_key=CACHE_KEY.read(fields) or "",
        options=take_options(fields),
        needs=needs_of(fields, media, is_structured=is_structured),
        prompt_bytes=prompt_bytes - media.image_bytes + weigh(fields, _LOOKED_AT),
        images=media.images,
        max_tokens=_MAX_TOKENS.read(fields),
        workflow=workflow_of(fields),
    )


def _look_at(messages: list[Fields], media_hosts: frozenset[str], first: int) -> Media:
    """Check every message; return their media. `first` is where the caller's own begin."""
    media, parts = Media(), 0
    for index, message in enumerate(messages):
        for name, value in message.items():
            if not is_container(value):
                continue
            param = f"messages.{index - first}.{name}" if index >= first else "system"
            refuse_deep(value, levels_max=DEPTH_MAX - 3, param=param)
            if name == "content" and memoryview(value)[0] == _ARRAY:
                images = Images()
                _look_at_blocks(value, media_hosts, param, images)
                parts += images.parts
                check_count(parts, "messages.*.content")
                if images.count:
                    media.add(index, images)
    return media


def _look_at_blocks(
    raw: Raw, media_hosts: frozenset[str], param: str, images: Images, depth: int = 1
) -> None:
    """Check blocks, also those inside a tool's result and inside a document in it.

    Blocks that are nested deeper are refused: each level decodes again all that is below it.
    """
    if depth > _BLOCKS_DEPTH_MAX:
        raise InvalidRequest(
            f"`{param}`: blocks are nested deeper than {_BLOCKS_DEPTH_MAX} levels.", param=param
        )
    try:
        blocks = _blocks_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`{param}`: {bad}", param=param) from None
    images.parts += len(blocks)
    check_count(images.parts, param)
    for block in blocks:
        if is_given(block, "source"):
            _check_source(block["source"], media_hosts, param)
            images.count += 1
            images.bytes += len(block["source"])
        nested = block.get("content")
        if nested is not None and memoryview(nested)[0] == _ARRAY:
            _look_at_blocks(nested, media_hosts, param, images, depth + 1)


def _check_source(raw: Raw, media_hosts: frozenset[str], param: str) -> None:
    try:
        source = _source_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`{param}.source`: {bad}", param=param) from None
    if source is None:
        return
    if source.url is not None:
        check_url(source.url, media_hosts, param)
    if source.data is not None and source.type == "base64":
        check_url(f"data:{source.media_type};base64,{source.data}", media_hosts, param)


def _is_structured(fields: Fields) -> bool:
    refuse_deep(fields["output_config"], levels_max=DEPTH_MAX - 1, param="output_config")
    config = _OUTPUT_CONFIG.read(fields)
    return config is not None and bool(config.format)
