"""Computes the prompt family: a label that all requests of one agent share.

It is a hash of the sorted tool names and of the first 512 bytes of the first system message. Agents
put dates and paths later, so these bytes stay the same from turn to turn and from user to user.
"""

import hashlib
import secrets
from typing import Final

import msgspec
from msgspec import Raw

from penstock.wire.json_body import Fields
from penstock.wire.prompt.chain import digest, is_system
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.shapes import Part, Tool

SEARCHED_MESSAGES: Final = 8
_SYSTEM_BYTES: Final = 512
# A byte of text takes at most six in JSON: \u0041.
_JSON_BYTES: Final = 6 * _SYSTEM_BYTES
_STRING_BYTES: Final = _JSON_BYTES + 2
_QUOTE: Final = ord('"')
# More than any agent has.
_NAMED_TOOLS_MAX: Final = 1000
# Decoding an agent's tools again at every turn would cost ten times what finding its family does.
FAMILIES_MAX: Final = 4096

_tools_decoder = msgspec.json.Decoder(list[Tool] | None)
_parts_decoder = msgspec.json.Decoder(list[Part])
_text_decoder = msgspec.json.Decoder(str)


class PromptFamilies:
    """Computes families, and caches those of prompts that recur."""

    def __init__(self) -> None:
        self._by_digest: dict[int, str] = {}
        self._seed = secrets.randbits(62)

    def __len__(self) -> int:
        return len(self._by_digest)

    def find(self, fields: Fields, messages: list[Fields], known: KnownPrompt | None = None) -> str:
        """Return sixteen hexadecimal digits; empty for a prompt without tools and system message.

        Two prompts with one digest would share a family, which is only a label.
        """
        tools = fields.get("tools")
        system = find_system(messages) if known is None else _known_system(fields, known)
        if tools is None and system is None:
            return ""
        made_of = self._seed if tools is None else digest(tools, self._seed)
        if system is not None:
            # The seed is one more, so that a system message is not taken for tools.
            made_of = digest(_start(system), made_of + 1)
        family = self._by_digest.get(made_of)
        if family is None:
            if len(self._by_digest) >= FAMILIES_MAX:
                self._by_digest.clear()
            family = self._by_digest[made_of] = _family(tools, system)
        return family


def find_system(messages: list[Fields]) -> Raw | None:
    """Return the content of the first system message."""
    for index, message in enumerate(messages):
        if index == SEARCHED_MESSAGES:
            break
        role = message.get("role")
        if role is not None and is_system(role):
            content = message.get("content")
            if content is not None:
                return content
    return None


def _family(tools: Raw | None, system: Raw | None) -> str:
    names = [] if tools is None else _tool_names(tools)
    start = b"" if system is None else _text_of(system)[:_SYSTEM_BYTES]
    if not names and not start:
        return ""
    family = hashlib.blake2b(digest_size=8)
    for name in sorted(names):
        family.update(name.encode("utf-8", "replace") + b"\0")
    family.update(b"\0" + start)
    return family.hexdigest()


def _tool_names(raw: Raw) -> list[str]:
    try:
        tools = _tools_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return []
    named = (tools or [])[:_NAMED_TOOLS_MAX]
    return [tool.function.name if tool.function else tool.name for tool in named]


def _known_system(fields: Fields, known: KnownPrompt) -> Raw | None:
    if known.system is None:
        return None
    start, end = known.system
    return Raw(memoryview(fields["messages"])[start:end])


def _start(content: Raw) -> Raw | memoryview:
    """Return the part of a content that decides its family: a long string's first bytes."""
    if len(content) <= _STRING_BYTES:
        return content
    view = memoryview(content)
    return view[:_STRING_BYTES] if view[0] == _QUOTE else content


def _text_of(content: Raw) -> bytes:
    view = memoryview(content)
    if view[0] == _QUOTE:
        return _start_of_string(bytes(view[:_STRING_BYTES]), is_whole=len(view) <= _JSON_BYTES)
    try:
        parts = _parts_decoder.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return b""
    return "".join([part.text for part in parts]).encode("utf-8", "replace")


def _start_of_string(raw: bytes, *, is_whole: bool) -> bytes:
    """Decode a JSON string, or the start of a long one, which may be cut inside a character."""
    if is_whole:
        return _text_decoder.decode(raw).encode("utf-8", "replace")
    for dropped in range(1, 13):
        try:
            return _text_decoder.decode(raw[:-dropped] + b'"').encode("utf-8", "replace")
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Cut inside an escape, or inside the bytes of one character.
            continue
    return raw
