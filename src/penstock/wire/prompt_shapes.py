"""Tools and parts of contents, as far as a prompt's family is made of them."""

import msgspec


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
