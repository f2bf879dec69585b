"""Reads a request of OpenAI's Responses, stateless: its own input contains the whole prompt.

Some fields are read, strictly; the rest goes to the engine untouched.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.apis.hosted_tools import drop_hosted_tools
from penstock.wire.apis.prompt_fields import needs_of, take_options, weigh, workflow_of
from penstock.wire.apis.prompt_request import CACHE_KEY, STREAM, TOKENS, PromptRequest
from penstock.wire.apis.stored_state import refuse_references
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
from penstock.wire.prompt.media import Media
from penstock.wire.prompt.message_media import look_at_parts

_MAX_TOKENS = Field("max_output_tokens", TOKENS, None)
_INSTRUCTIONS = Field("instructions", msgspec.json.Decoder(str | None), None)
_LOOKED_AT: Final = frozenset({"input", "text"})
_QUOTE: Final = ord('"')
_ARRAY: Final = ord("[")
# Fields of an item with parts that an engine would load: its own content, or a tool's output.
_PART_LISTS: Final = ("content", "output")
_USER: Final = Raw(b'"user"')
_SYSTEM: Final = Raw(b'"system"')
_ASSISTANT: Final = Raw(b'"assistant"')
# Items without a role that the model has written.
_WRITTEN: Final = (b'"reasoning"', b'"function_call"', b'"custom_tool_call"')


class _Format(msgspec.Struct):
    type: str = ""


class _Text(msgspec.Struct):
    format: _Format | None = None


_TEXT = Field("text", msgspec.json.Decoder(_Text | None), None)
_items_decoder = msgspec.json.Decoder(list[Fields])


def read_responses(fields: Fields, media_hosts: frozenset[str]) -> PromptRequest:
    """Read and check one request. `fields` is changed: options and some tools are taken out."""
    items = _read_input(fields)
    check_items(items, "input")
    refuse_references(items)
    drop_hosted_tools(fields)
    instructions = _INSTRUCTIONS.read(fields)
    if instructions:
        # The engine renders them before the input, like a system message.
        items.insert(0, {"role": _SYSTEM, "content": fields["instructions"]})
    media = _look_at(items, media_hosts, first=1 if instructions else 0)
    is_structured = "text" in fields and _is_structured(fields)
    prompt_bytes = len(fields["input"]) - media.image_bytes + weigh(fields, _LOOKED_AT)
    if instructions:
        prompt_bytes += len(fields["instructions"])
    return PromptRequest(
        fields=fields,
        messages=items,
        media=media,
        is_stream=bool(STREAM.read(fields)),
        cache_key=CACHE_KEY.read(fields) or "",
        options=take_options(fields),
        needs=needs_of(fields, media, is_structured=is_structured),
        prompt_bytes=prompt_bytes,
        images=media.images,
        max_tokens=_MAX_TOKENS.read(fields),
        max_tokens_field="max_output_tokens",
        workflow=workflow_of(fields),
    )


def check_input(fields: Fields) -> None:
    """Refuse an input that is neither a text nor a list of items, before it is decoded."""
    _read_input(fields)


def _read_input(fields: Fields) -> list[Fields]:
    """Return the input's items; a text is one user message. These copies are not sent on."""
    if not is_given(fields, "input"):
        raise InvalidRequest("`input` is required.", param="input")
    raw = fields["input"]
    if memoryview(raw)[0] == _QUOTE:
        return [{"role": _USER, "content": raw}]
    try:
        items = _items_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`input`: {bad}", param="input") from None
    except RecursionError:
        raise InvalidRequest("`input` is nested too deep.", param="input") from None
    if not items:
        raise InvalidRequest("`input` is empty: send at least one item.", param="input")
    for item in items:
        kind = item.get("type")
        if kind is not None and "role" not in item and bytes(kind) in _WRITTEN:
            item["role"] = _ASSISTANT
    return items


def _look_at(items: list[Fields], media_hosts: frozenset[str], *, first: int) -> Media:
    """Check every item; return their media. `first` is where the input's own items begin."""
    media, parts = Media(), 0
    for index, item in enumerate(items):
        for name, value in item.items():
            if not is_container(value):
                continue
            param = f"input.{index - first}.{name}"
            if name in _PART_LISTS and memoryview(value)[0] == _ARRAY:
                images = look_at_parts(value, media_hosts, param)
                parts += images.parts
                check_count(parts, "input.*")
                if images.count:
                    media.add(index, images)
            else:
                refuse_deep(value, levels_max=DEPTH_MAX - 3, param=param)
    return media


def _is_structured(fields: Fields) -> bool:
    refuse_deep(fields["text"], levels_max=DEPTH_MAX - 1, param="text")
    text = _TEXT.read(fields)
    return text is not None and text.format is not None and text.format.type not in ("", "text")
