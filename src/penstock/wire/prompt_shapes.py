"""Messages, tools and parts of contents, as far as they are decoded."""

import msgspec

from penstock.wire.json_body import Fields


class OnlyMessages(msgspec.Struct):
    """A chat request without all that is not a message."""

    messages: list[Fields]


class RawMessages(msgspec.Struct):
    """The same, and they are not split yet."""

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
