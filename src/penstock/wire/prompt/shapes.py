"""Shapes that msgspec decodes of a prompt: only the fields that are read."""

import msgspec

from penstock.wire.json_body import Fields


class OnlyMessages(msgspec.Struct):
    """Of a chat request, only its messages."""

    messages: list[Fields]


class RawMessages(msgspec.Struct):
    """The same, with the messages as they are written."""

    messages: msgspec.Raw


class ToolFunction(msgspec.Struct):
    """What a tool calls."""

    name: str = ""


class Tool(msgspec.Struct):
    """OpenAI's shape, or Workers AI's flat one."""

    function: ToolFunction | None = None
    name: str = ""


class Part(msgspec.Struct):
    """One of several that a content is made of."""

    text: str = ""


class MediaUrl(msgspec.Struct):
    """An address inside an object."""

    url: str
