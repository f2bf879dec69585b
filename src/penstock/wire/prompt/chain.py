"""Computes the chain of a prompt: a 62-bit link per message, each covering all messages before it.

Values are hashed in place, as they are written in the body: nothing is decoded or copied, and there
is no tokenizer. The order of names in a message does not count, spaces inside a value do: a prompt
that is written differently is a new one here, which costs a cache hit and no more.
"""

from typing import Final

import xxhash
from msgspec import Raw

from penstock.records.prompt_chain import PromptChain
from penstock.wire.json_body import Fields
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.media import Media
from penstock.wire.prompt.message_media import decode_messages

_NOTHING: Final = Raw(b"")
_xxh3: Final = xxhash.xxh3_64_intdigest
# mypyc keeps integers of at most 62 bits out of the heap.
DIGEST_MAX: Final = 2**62 - 1


def digest(value: str | bytes | memoryview, seed: int = 0) -> int:
    """Hash a value to 62 bits. A secret seed makes an account's digests differ from all others'."""
    return _xxh3(value, seed) & DIGEST_MAX


_USER_NAME: Final = Raw(b'"user"')
_ASSISTANT_NAME: Final = Raw(b'"assistant"')
_TOOL_NAME: Final = Raw(b'"tool"')
_SYSTEM_NAME: Final = Raw(b'"system"')
_DEVELOPER_NAME: Final = Raw(b'"developer"')
# Lengths with their quotes: `user` and `tool`, `assistant` and `developer`, `system`.
_USER_LENGTH: Final = 6
_ASSISTANT_LENGTH: Final = 11
_DEVELOPER_LENGTH: Final = 11
_SYSTEM_LENGTH: Final = 8
# Roles as small numbers, and what each adds to a link: comparing costs a tenth of a digest.
_OTHER: Final = 0
_USER: Final = 1
_ASSISTANT: Final = 2
_TOOL: Final = 3
_SYSTEM: Final = 4
_ROLE_LINKS: Final = [
    0,
    digest(_USER_NAME),
    digest(_ASSISTANT_NAME),
    digest(_TOOL_NAME),
    digest(_SYSTEM_NAME),
]
_ROLE_AND_MORE: Final = 2

# Fields that vLLM renders before the first message, or that change how messages become tokens.
# `tool_choice` and `response_format` are shown to the template of one model only (Kimi K3), and
# clients change them from turn to turn: they would break chains that the engine's cache holds.
_FIELD_SEEDS: Final = {
    name: digest(name)
    for name in (
        "tools", "documents", "chat_template", "chat_template_kwargs", "reasoning_effort",
        "reasoning", "thinking", "output_config", "add_special_tokens", "truncate_prompt_tokens",
        "truncation_side", "mm_processor_kwargs", "media_io_kwargs",
    )
}  # fmt: skip
_NAME_SEEDS: Final = {
    name: digest(name)
    for name in (
        "name", "tool_calls", "tool_call_id", "reasoning", "reasoning_content", "refusal",
    )
}  # fmt: skip
_CONTENT: Final = digest("content")


def prompt_chain(
    root: int,
    fields: Fields,
    messages: list[Fields],
    media: Media,
    image_bytes: int,
    known: KnownPrompt | None = None,
) -> PromptChain:
    """Compute the links under `root`, which is a digest of account and model.

    `image_bytes` is how much text costs as many tokens as an image does. `messages` come after the
    known ones, whose links are taken over unless tools or the like have changed.
    """
    link, size = _first_link(root, fields)
    if known is not None and (known.links[0], known.root, known.image_bytes) != (
        link,
        root,
        image_bytes,
    ):
        messages, known = decode_messages(fields["messages"]), None
    links, sizes = [link], [size]
    if known is not None:
        links, sizes = known.links.tolist(), known.sizes.tolist()
        link = links[-1]
    before = len(links) - 1
    roles = []
    for message in messages:
        link, size, role = _link_of(message, link)
        links.append(link)
        sizes.append(size)
        roles.append(role)
    for index, images in media.by_message.items():
        if index >= before:
            sizes[index + 1] += images.count * image_bytes - images.bytes
    if known is None:
        return PromptChain(
            tuple(links),
            tuple(sizes),
            earlier_of(roles),
            is_system(messages[0].get("role", _NOTHING)),
            opening_of(root, messages, roles),
        )
    return PromptChain(
        tuple(links),
        tuple(sizes),
        _earlier_with(known, roles),
        known.has_system,
        known.opening or opening_of(root, messages, roles),
    )


def _link_of(message: Fields, seed: int) -> tuple[int, int, int]:
    """Return a message's link, seeded with the link before it, its size, and its role."""
    link, size, role = 0, 0, _OTHER
    for name, value in message.items():
        size += len(value)
        # XOR, so that the order of names does not count; each occurs once, so none cancels out.
        if name == "role":
            role = _role(value)
            link ^= digest(value) if role == _OTHER else _ROLE_LINKS[role]
        elif name == "content":
            link ^= digest(value, seed ^ _CONTENT)
        else:
            named = _NAME_SEEDS.get(name)
            link ^= digest(value, seed ^ (digest(name) if named is None else named))
    if len(message) < _ROLE_AND_MORE:
        # A message with a role alone, or empty, must also depend on the messages before it.
        link = digest(_NOTHING, seed ^ link)
    return link, size, role


def roles_of(messages: list[Fields]) -> list[int]:
    """Return the role of each message."""
    return [_role(message.get("role", _NOTHING)) for message in messages]


def _role(name: Raw) -> int:
    length = len(name)
    if length == _USER_LENGTH:
        return _USER if name == _USER_NAME else _TOOL if name == _TOOL_NAME else _OTHER
    if length == _ASSISTANT_LENGTH:
        return _ASSISTANT if name == _ASSISTANT_NAME else _OTHER
    return _SYSTEM if length == _SYSTEM_LENGTH and name == _SYSTEM_NAME else _OTHER


def is_system(role: Raw) -> bool:
    length = len(role)
    if length == _SYSTEM_LENGTH:
        return role == _SYSTEM_NAME
    return length == _DEVELOPER_LENGTH and role == _DEVELOPER_NAME


def is_assistant(role: int) -> bool:
    return role == _ASSISTANT


def _first_link(root: int, fields: Fields) -> tuple[int, int]:
    link, size = root, 0
    for name, value in fields.items():
        if name in _FIELD_SEEDS:
            link ^= digest(value, root ^ _FIELD_SEEDS[name])
            size += len(value)
    return link, size


def earlier_of(roles: list[int]) -> int:
    """Return how many links come before the assistant's last answer, of one message or more."""
    found = 0
    for index in range(len(roles) - 1, -1, -1):
        if roles[index] == _ASSISTANT:
            found = index + 1
        elif found:
            break
    return found


def _earlier_with(known: KnownPrompt, roles: list[int]) -> int:
    found = earlier_of(roles)
    if found == 0 or (found == 1 and known.ends_with_answer):
        return known.earlier
    return known.count + found


def opening_of(root: int, messages: list[Fields], roles: list[int]) -> int:
    """Return a digest of the first user message by itself; 0 if there is none."""
    for index, role in enumerate(roles):
        if role == _USER:
            return digest(messages[index].get("content", _NOTHING), root)
    return 0
