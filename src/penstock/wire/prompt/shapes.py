"""The parts of a prompt that msgspec decodes: only the fields that are read."""

import msgspec

from penstock.wire.json_body import Fields


class OnlyMessages(msgspec.Struct):
    """Of a chat request, only its messages."""

    messages: list[Fields]


class RawMessages(msgspec.Struct):
    """The same, with the messages as they are written."""

    messages: msgspec.Raw


class ToolFunction(msgspec.Struct):
    """The function of a tool."""

    name: str = ""


class Tool(msgspec.Struct):
    """A tool in OpenAI's shape, or in Workers AI's flat one."""

    function: ToolFunction | None = None
    name: str = ""


class Part(msgspec.Struct):
    """One part of a message's content."""

    text: str = ""


class MediaUrl(msgspec.Struct):
    """A media address inside an object."""

    url: str
