"""The chain of a prompt: a 64-bit link per message, each covering all that stands before it.

Values are hashed where they lie in the body, as they are written: nothing is decoded or copied, and
no tokenizer is asked. The order of names in a message does not count, spaces inside a value do: a
prompt that is written differently is a new one here, which costs a cache hit and no more.
"""

from typing import Final

from msgspec import Raw
from xxhash import xxh3_64_intdigest as _digest

from penstock.records.prompt_chain import PromptChain
from penstock.wire.json_body import Fields
from penstock.wire.known_prompt import KnownPrompt
from penstock.wire.media import Media
from penstock.wire.messages import decode_messages

_NOTHING: Final = Raw(b"")

_USER: Final = _digest(b'"user"')
_ASSISTANT: Final = _digest(b'"assistant"')
_SYSTEM_ROLES: Final = (_digest(b'"system"'), _digest(b'"developer"'))

# What vLLM renders in front of the first message, or what changes how messages become tokens.
# `tool_choice` and `response_format` are shown to the template of one model only (Kimi K3), and
# clients change them from turn to turn: they would break chains that the engine's cache holds.
_FIELD_SEEDS: Final = {
    name: _digest(name)
    for name in (
        "tools", "documents", "chat_template", "chat_template_kwargs", "reasoning_effort",
        "reasoning", "thinking", "output_config", "add_special_tokens", "truncate_prompt_tokens",
        "truncation_side", "mm_processor_kwargs", "media_io_kwargs",
    )
}  # fmt: skip
_NAME_SEEDS: Final = {
    name: _digest(name)
    for name in (
        "role", "content", "name", "tool_calls", "tool_call_id", "reasoning", "reasoning_content",
        "refusal",
    )
}  # fmt: skip


def digest(value: str | bytes | memoryview, seed: int = 0) -> int:
    """A value as 64 bits; a seed that nobody else has makes them nobody else's."""
    return _digest(value, seed)


def prompt_chain(
    root: int,
    fields: Fields,
    messages: list[Fields],
    media: Media,
    image_bytes: int,
    known: KnownPrompt | None = None,
) -> PromptChain:
    """The links under `root`, which is a digest of account and model.

    `image_bytes` is how much text costs as many tokens as an image does. `messages` stand behind
    the known ones, whose links are taken over unless tools or the like have changed. This runs for
    every request: a call saved for each message is a tenth of its time.
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
    for message in messages:
        seed, link, size = link, 0, 0
        for name, value in message.items():
            try:
                named = _NAME_SEEDS[name]
            except KeyError:
                named = _digest(name)
            # The order of names does not count; each counts once, so none takes another out.
            link ^= _digest(value, seed ^ named)
            size += len(value)
        # A message without values is still one.
        link = link or _digest(_NOTHING, seed)
        links.append(link)
        sizes.append(size)
    for index, images in media.by_message.items():
        if index >= before:
            sizes[index + 1] += images.count * image_bytes - images.bytes
    if known is None:
        return PromptChain(
            tuple(links),
            tuple(sizes),
            earlier_of(messages),
            _digest(messages[0].get("role", _NOTHING)) in _SYSTEM_ROLES,
            opening_of(root, messages),
        )
    return PromptChain(
        tuple(links),
        tuple(sizes),
        _earlier_with(known, messages),
        known.has_system,
        known.opening or opening_of(root, messages),
    )


def is_assistant(message: Fields) -> bool:
    # The digest of a role costs half of what taking its bytes out would.
    return _digest(message.get("role", _NOTHING)) == _ASSISTANT


def _first_link(root: int, fields: Fields) -> tuple[int, int]:
    link, size = root, 0
    for name, value in fields.items():
        if name in _FIELD_SEEDS:
            link ^= _digest(value, root ^ _FIELD_SEEDS[name])
            size += len(value)
    return link, size


def earlier_of(messages: list[Fields]) -> int:
    """How many links stand before the last thing that an assistant said, in one part or several."""
    found = 0
    for index in range(len(messages) - 1, -1, -1):
        if is_assistant(messages[index]):
            found = index + 1
        elif found:
            break
    return found


def _earlier_with(known: KnownPrompt, messages: list[Fields]) -> int:
    found = earlier_of(messages)
    if found == 0 or (found == 1 and known.ends_with_answer):
        return known.earlier
    return known.count + found


def opening_of(root: int, messages: list[Fields]) -> int:
    """The first user message by itself; 0 if there is none."""
    for message in messages:
        if _digest(message.get("role", _NOTHING)) == _USER:
            return _digest(message.get("content", _NOTHING), root)
    return 0
