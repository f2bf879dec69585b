"""Builds what the memory keeps of a prompt from a body that was read: offsets and links, no text.

A prompt is learned up to its end, where its next turn continues. A prompt that was new is also
learned without its last message: other requests may ask something else about the same text.
"""

from array import array
from typing import Final

import msgspec
from msgspec import Raw

from penstock.records.prompt_chain import PromptChain
from penstock.wire.json_body import Fields
from penstock.wire.prompt.chain import earlier_of, is_assistant, opening_of, roles_of
from penstock.wire.prompt.family import SEARCHED_MESSAGES, find_system
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.media import Media
from penstock.wire.prompt.parsed_body import ParsedBody

# So that no single prompt displaces many others in the memory.
WEIGHT_EACH_MAX: Final = 10_000

_decode_each: Final = msgspec.json.Decoder(list[Raw]).decode


def learn(
    parsed: ParsedBody, root: int, chain: PromptChain, media: Media, image_bytes: int
) -> list[KnownPrompt]:
    """Return what to remember, shorter prompts first; nothing where it would not be used later."""
    messages, known = parsed.messages, parsed.known
    if not messages:
        return []
    try:
        sizes = array("I", chain.sizes)
    except OverflowError:
        # The images count as gigabytes of text: no real prompt has so many.
        return []
    written = b"" if known is not None else bytes(parsed.fields["messages"])
    whole = KnownPrompt(
        array_at=parsed.array_at,
        boundary=parsed.boundary,
        commas=parsed.commas,
        root=root,
        image_bytes=image_bytes,
        links=array("Q", chain.links),
        sizes=sizes,
        earlier=chain.earlier,
        ends_with_answer=is_assistant(roles_of(messages[-1:])[0]),
        has_system=chain.has_system,
        opening=chain.opening,
        images=_image_counts(media),
        system=_place_of_system(written, messages) if known is None else known.system,
    )
    if whole.weight > WEIGHT_EACH_MAX:
        return []
    learned = [whole]
    if known is None and len(messages) > 1:
        learned.insert(0, _without_last(whole, written, messages[:-1]))
    return [one for one in learned if _has_settled_system(one)]


def _without_last(whole: KnownPrompt, written: bytes, before: list[Fields]) -> KnownPrompt:
    """Return the prompt up to the last message but one; `before` is all messages but the last."""
    roles = roles_of(before)
    last_at = whole.boundary - whole.array_at - len(_decode_each(written)[-1])
    # Only a comma and spaces are between two messages.
    end = written.rfind(b"}", 0, last_at) + 1
    return KnownPrompt(
        array_at=whole.array_at,
        boundary=whole.array_at + end,
        commas=whole.commas,
        root=whole.root,
        image_bytes=whole.image_bytes,
        links=whole.links[:-1],
        sizes=whole.sizes[:-1],
        earlier=earlier_of(roles),
        ends_with_answer=is_assistant(roles[-1]),
        has_system=whole.has_system,
        opening=opening_of(whole.root, before, roles),
        images=_images_before(len(before), whole.images),
        system=None if find_system(before) is None else whole.system,
    )


def _image_counts(media: Media) -> "array[int]":
    images = array("Q")
    for index, one in media.by_message.items():
        images.extend((index, one.count, one.bytes))
    return images


def _images_before(index: int, images: "array[int]") -> "array[int]":
    """Drop the last message's images: only that message can be at this index, and it comes last."""
    return images[:-3] if images and images[-3] >= index else images


def _has_settled_system(known: KnownPrompt) -> bool:
    """Return whether later messages cannot change the system message: only the first few count."""
    return known.system is not None or known.count >= SEARCHED_MESSAGES


def _place_of_system(written: bytes, messages: list[Fields]) -> tuple[int, int] | None:
    """Return where the system message's content is in `written`.

    This may be an earlier place with the same bytes: only the bytes are read again, not the message
    around them.
    """
    content = find_system(messages)
    if content is None:
        return None
    start = written.find(content)
    return start, start + len(content)
