"""Facts of a request's body by which its class is chosen, in whatever API it is.

All of them are the same in every turn of a conversation. A value that is not as its API wants it
counts as absent: the API's own reader refuses it later.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.wire.json_body import ARRAY_START, Fields, first_byte, is_given

# The names under which APIs bound an answer; vLLM uses the newer one where two are given.
OUTPUT_BOUNDS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_TOOL_LISTS: Final = ("tools", "functions")
# Where the opening is: instructions, then messages, items or a text.
_INSTRUCTIONS: Final = ("system", "instructions")
_TURNS: Final = ("messages", "input", "prompt")
# As they stand in a body outside of texts, where quotes are escaped. A value alone, without its
# name, may be a whole text or the name of a tool that was called.
IMAGE_MARKS: Final = (
    b'"image_url":', b'"type":"image"', b'"type": "image"', b'"type":"input_image"',
    b'"type": "input_image"',
)  # fmt: skip
_USER: Final = b'"user"'
_QUOTE: Final = ord('"')

_messages: Final = msgspec.json.Decoder(list[Fields])


class RequestFacts:
    """What a body says of itself; each fact is found when it is asked for."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    @cached_property
    def is_stream(self) -> bool:
        return self._value("stream") is True

    @cached_property
    def tool_names(self) -> Sequence[str]:
        """The names of the tools that are offered; a hosted tool's is its type."""
        found: list[str] = []
        for name in _TOOL_LISTS:
            tools = self._value(name)
            if isinstance(tools, list):
                found += [_name_of(tool) for tool in tools if isinstance(tool, dict)]
        return found

    @cached_property
    def tool_lines(self) -> str:
        """The names of the tools, each with a line break before and behind it."""
        return "\n".join(["", *(name.replace("\n", " ") for name in self.tool_names), ""])

    @cached_property
    def is_structured(self) -> bool:
        """Whether the answer must follow a schema, or at least be JSON."""
        wanted = self._value("response_format")
        for name in ("text", "output_config"):
            value = self._value(name)
            if isinstance(value, dict) and value.get("format"):
                wanted = value["format"]
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        return isinstance(kind, str) and kind not in ("", "text")

    @cached_property
    def opening_bytes(self) -> int:
        """Bytes of tools, instructions, and the messages up to the user's first one."""
        beside = (*_TOOL_LISTS, *_INSTRUCTIONS)
        known = sum(len(self._fields[name]) for name in beside if name in self._fields)
        return known + sum(len(part) for part in self._opening)

    @cached_property
    def has_images(self) -> bool:
        """Whether the opening has images."""
        return any(mark in bytes(part) for part in self._opening for mark in IMAGE_MARKS)

    @cached_property
    def may_need_vision(self) -> bool:
        """Whether any message seems to have an image; the API's reader looks again."""
        turns = [bytes(self._fields[name]) for name in _TURNS if name in self._fields]
        return any(mark in text for text in turns for mark in IMAGE_MARKS)

    @cached_property
    def output_tokens_max(self) -> int | None:
        """The caller's own bound of an answer's length."""
        for name in OUTPUT_BOUNDS:
            value = self._value(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

    @cached_property
    def reasoning_effort(self) -> str:
        reasoning = self._value("reasoning")
        inner = reasoning.get("effort") if isinstance(reasoning, dict) else None
        effort = self._value("reasoning_effort") or inner
        return effort if isinstance(effort, str) else ""

    @cached_property
    def _opening(self) -> Sequence[Raw]:
        """The messages up to the user's first one, or the texts."""
        name = next((name for name in _TURNS if is_given(self._fields, name)), None)
        if name is None:
            return ()
        raw = self._fields[name]
        if first_byte(raw) == _QUOTE:
            return (raw,)
        try:
            messages = _messages.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            # A list of texts, or of tokens.
            return (raw,) if first_byte(raw) == ARRAY_START and name != "messages" else ()
        found: list[Raw] = []
        for message in messages:
            found.append(message.get("content", Raw(b"")))
            role = message.get("role")
            if role is not None and bytes(role) == _USER:
                break
        return found

    def _value(self, name: str) -> Any:  # noqa: ANN401 - any JSON
        raw = self._fields.get(name)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return None


def _name_of(tool: dict[str, Any]) -> str:
    function = tool.get("function")
    named = function if isinstance(function, dict) else tool
    name = named.get("name") or tool.get("server_label") or tool.get("type")
    return name if isinstance(name, str) else ""
