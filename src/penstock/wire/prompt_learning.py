"""From a body that was read to what is remembered of it: where things are, and the links.

A prompt is learned up to its end, which is where its next turn goes on. One that was new is also
learned without its last message: others may ask something else about the same text.
"""

from array import array
from typing import Final

from penstock.records.prompt_chain import PromptChain
from penstock.wire.json_body import Fields
from penstock.wire.known_prompt import KnownPrompt
from penstock.wire.large_body import end_of, offset_of
from penstock.wire.media import Media
from penstock.wire.parsed_body import ParsedBody
from penstock.wire.prompt_chain import earlier_of, is_assistant, opening_of, roles_of
from penstock.wire.prompt_family import SEARCHED_MESSAGES, find_system

# So that no single prompt takes the place of many in the memory.
WEIGHT_EACH_MAX: Final = 10_000


def learn(
    parsed: ParsedBody, root: int, chain: PromptChain, media: Media, image_bytes: int
) -> list[KnownPrompt]:
    """What to remember, shorter ones first; nothing where it would be of no use later."""
    messages, known = parsed.messages, parsed.known
    if not messages:
        return []
    try:
        sizes = array("I", chain.sizes)
    except OverflowError:
        # Very many images are worth gigabytes of text. Nobody means that.
        return []
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
        images=_written(media),
        system=_place_of_system(parsed, messages) if known is None else known.system,
    )
    if whole.weight > WEIGHT_EACH_MAX:
        return []
    shorter = _without_last(whole, parsed, messages) if known is None else None
    return [one for one in (shorter, whole) if one is not None and _says_of_system(one)]


def _without_last(
    whole: KnownPrompt, parsed: ParsedBody, messages: list[Fields]
) -> KnownPrompt | None:
    before = messages[:-1]
    roles = roles_of(before)
    end = end_of(before[-1], parsed.fields["messages"]) if before else None
    if end is None:
        return None
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
        system=whole.system if whole.system is not None and whole.system[1] <= end else None,
    )


def _written(media: Media) -> "array[int]":
    images = array("Q")
    for index, one in media.by_message.items():
        images.extend((index, one.count, one.bytes))
    return images


def _images_before(index: int, images: "array[int]") -> "array[int]":
    """Only the last message can be at or behind this index, and its numbers stand last."""
    return images[:-3] if images and images[-3] >= index else images


def _says_of_system(known: KnownPrompt) -> bool:
    """Whether it is settled which message is the system's: it may be one of the first few."""
    return known.system is not None or known.count >= SEARCHED_MESSAGES


def _place_of_system(parsed: ParsedBody, messages: list[Fields]) -> tuple[int, int] | None:
    content = find_system(messages)
    if content is None:
        return None
    start = offset_of(content, parsed.fields["messages"])
    return start, start + len(content)
