"""What is learned of a prompt: only what will be of use, and never too much."""

import json

import msgspec
import pytest

from penstock.wire.apis.chat import read_chat
from penstock.wire.prompt.chain import prompt_chain
from penstock.wire.prompt.chat_body import ChatBodyReader
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.learning import WEIGHT_EACH_MAX, learn
from penstock.wire.prompt.memory import LARGE_BYTES
from penstock.wire.prompt.prompt_suffix import read_suffix

PAD = "x" * LARGE_BYTES
ROOT = 5


def learned(
    messages: list[dict[str, object]], known: KnownPrompt | None = None
) -> list[KnownPrompt]:
    body = msgspec.json.encode({"model": "m", "messages": messages, "stream": True})
    return learned_of(body, known)


def learned_of(body: bytes, known: KnownPrompt | None = None) -> list[KnownPrompt]:
    rest = None if known is None else read_suffix(body, known)
    parsed = ChatBodyReader().read(body) if rest is None else rest
    prompt = read_chat(parsed.fields, frozenset(), parsed)
    chain = prompt_chain(ROOT, prompt.fields, prompt.messages, prompt.media, 100, parsed.known)
    return learn(parsed, ROOT, chain, prompt.media, 100)


def said(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def picture(size: int) -> dict[str, object]:
    return {"type": "image_url", "image_url": "data:image/png;base64," + "A" * size}


def test_a_new_prompt_is_learned_whole_and_without_its_last_message() -> None:
    pictures = [said("user", [picture(4)]), said("user", [picture(8)])]
    shorter, whole = learned([said("system", "be kind"), said("user", PAD), *pictures])
    assert (shorter.count, whole.count) == (3, 4)
    assert whole.links[:-1] == shorter.links
    assert list(whole.images) == [2, 1, 28, 3, 1, 32]
    assert list(shorter.images) == [2, 1, 28]
    assert whole.system == shorter.system


@pytest.mark.parametrize("style", [(",", ":"), (", ", ": "), (" ,\n", " :\t")])
def test_places_are_those_in_the_body(style: tuple[str, str]) -> None:
    messages = [said("system", "be kind"), said("user", PAD), said("user", "go")]
    pairs = {"model": "m", "messages": messages, "stream": True}
    body = json.dumps(pairs, separators=style).encode()
    shorter, whole = learned_of(body)
    assert whole.system is not None
    start, end = (whole.array_at + at for at in whole.system)
    assert body[start:end] == b'"be kind"'
    assert body[whole.array_at] == ord("[")
    for known, count in ((shorter, 2), (whole, 3)):
        assert json.loads(body[known.array_at : known.boundary] + b"]") == messages[:count]


def test_of_a_longer_prompt_only_its_end_is_learned() -> None:
    messages = [said("system", "be kind"), said("user", PAD)]
    *_, known = learned(messages)
    (longer,) = learned([*messages, said("assistant", "yes"), said("user", "go")], known)
    assert (longer.count, longer.earlier) == (4, 3)
    assert longer.system == known.system
    assert learned(messages, known) == []


def test_a_prompt_whose_system_message_may_still_come_is_not_learned() -> None:
    assert learned([said("user", PAD)] * 7) == []
    assert [known.count for known in learned([said("user", PAD)] * 8)] == [8]
    assert [known.count for known in learned([said("user", PAD)] * 9)] == [8, 9]
    late = [said("user", PAD), said("user", "a"), said("system", "b")]
    assert [known.count for known in learned(late)] == [3]


def test_a_system_message_is_not_taken_for_an_earlier_one_that_says_the_same() -> None:
    late = [said("user", PAD), said("user", "same"), said("system", "same")]
    assert [known.count for known in learned(late)] == [3]


def test_a_prompt_of_very_many_messages_is_not_learned() -> None:
    short = [said("system", "a")] * (WEIGHT_EACH_MAX - 1)
    assert [known.weight for known in learned(short)] == [WEIGHT_EACH_MAX - 1, WEIGHT_EACH_MAX]
    assert learned([*short, said("user", "b")]) == []
