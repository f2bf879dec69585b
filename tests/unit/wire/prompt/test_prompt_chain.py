"""The chain of a prompt: equal links are equal prefixes, of one account and one model."""

import json
import time
import tracemalloc
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.records.prompt_chain import PromptChain
from penstock.wire.json_body import Fields
from penstock.wire.prompt.chain import digest, prompt_chain
from penstock.wire.prompt.chat_body import ChatBodyReader
from penstock.wire.prompt.message_media import decode_messages, look_at

ROOT = digest("model", digest("salt"))
IMAGE_BYTES = 3000
PIXEL = "iVBORw0KGgo="
NAMES = ("role", "content", "name", "tool_call_id", "reasoning", "cache_control", "x")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
MESSAGE = st.dictionaries(st.sampled_from(NAMES), TEXT, max_size=4)
CONVERSATION = st.lists(MESSAGE, min_size=1, max_size=6)


def chain(
    messages: object, root: int = ROOT, fields: Mapping[str, object] | None = None
) -> PromptChain:
    raw = msgspec.json.encode(messages)
    others: Fields = {
        name: Raw(msgspec.json.encode(value)) for name, value in (fields or {}).items()
    }
    return of_decoded(decode_messages(Raw(raw)), root, others)


def of_decoded(
    messages: list[Fields], root: int = ROOT, fields: Fields | None = None
) -> PromptChain:
    media = look_at(messages, frozenset())
    return prompt_chain(root, fields or {}, messages, media, IMAGE_BYTES)


def said(role: str, content: object = "x", **more: object) -> dict[str, object]:
    return {"role": role, "content": content, **more}


@given(CONVERSATION, st.integers(1, 6))
def test_links_of_a_prefix_are_the_first_links_of_the_whole(
    messages: list[dict[str, str]], length: int
) -> None:
    whole, prefix = chain(messages), chain(messages[:length])
    assert len(whole.links) == len(whole.sizes) == len(messages) + 1
    assert whole.links[: len(prefix.links)] == prefix.links
    assert whole.sizes[: len(prefix.sizes)] == prefix.sizes
    assert all(0 < link < 2**62 for link in whole.links)
    assert len(set(whole.links)) == len(whole.links)


@given(CONVERSATION, CONVERSATION)
def test_two_prompts_share_links_exactly_as_far_as_they_are_equal(
    one: list[dict[str, str]], other: list[dict[str, str]]
) -> None:
    other = one[: len(other) // 2] + other
    equal = 0
    while equal < min(len(one), len(other)) and one[equal] == other[equal]:
        equal += 1
    mine, theirs = chain(one).links, chain(other).links
    assert mine[: equal + 1] == theirs[: equal + 1]
    assert set(mine[equal + 1 :]).isdisjoint(theirs)


@given(CONVERSATION, st.data())
def test_the_order_of_names_in_a_message_does_not_count(
    messages: list[dict[str, str]], data: st.DataObject
) -> None:
    shuffled = [dict(data.draw(st.permutations(sorted(message.items())))) for message in messages]
    assert chain(shuffled) == chain(messages)


@given(MESSAGE, st.permutations(NAMES))
def test_a_value_under_another_name_is_another_message(
    message: dict[str, str], names: list[str]
) -> None:
    renamed = {new: message[old] for old, new in zip(NAMES, names, strict=True) if old in message}
    assume(renamed != message)
    assert chain([renamed]).links[1] != chain([message]).links[1]


@given(CONVERSATION, st.tuples(TEXT, TEXT), st.tuples(TEXT, TEXT))
def test_accounts_and_models_share_nothing(
    messages: list[dict[str, str]], one: tuple[str, str], other: tuple[str, str]
) -> None:
    assume(one != other)
    mine, theirs = (
        chain([*messages, said("user")], digest(model, digest(salt)))
        for salt, model in (one, other)
    )
    assert set(mine.links).isdisjoint(theirs.links)
    assert mine.opening != theirs.opening
    assert mine.sizes == theirs.sizes


def test_a_name_that_begins_another_is_another() -> None:
    seed = digest("salt")
    assert digest("session-1", seed) != digest("session-12", seed)
    assert digest("session-1", seed) != digest("session-1", digest("another"))
    assert digest("session-1", seed) == digest(b"session-1", seed)
    assert (
        chain([said("user", "session-1")]).links[1] != chain([said("user", "session-12")]).links[1]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"role": "assistant"},
        {"content": "hello "},
        {"content": None},
        {"content": [{"type": "text", "text": "hello"}]},
        {"name": "Ann"},
        {"tool_call_id": "call_1"},
        {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
        {
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
            ]
        },
    ],
)
def test_every_part_of_a_message_counts(change: dict[str, object]) -> None:
    plain = said("user", "hello")
    before, after = chain([plain, said("user")]), chain([plain | change, said("user")])
    assert before.links[0] == after.links[0]
    assert set(before.links[1:]).isdisjoint(after.links)


def test_another_image_is_another_prompt_of_the_same_size() -> None:
    one, other = (
        chain([said("user", [{"type": "image_url", "image_url": f"data:image/png;base64,{data}"}])])
        for data in (PIXEL, "AAAA" * 500)
    )
    assert one.links[1] != other.links[1]
    assert one.sizes == other.sizes


@pytest.mark.parametrize(
    "name",
    ["tools", "documents", "chat_template", "chat_template_kwargs", "reasoning_effort"],
)
def test_what_stands_before_the_messages_changes_every_link(name: str) -> None:
    plain, one, other = (
        chain([said("user")], fields=more) for more in ({}, {name: "a"}, {name: "b"})
    )
    assert len({*plain.links, *one.links, *other.links}) == 6
    assert plain.opening == one.opening == other.opening
    assert (plain.sizes[0], one.sizes[0]) == (0, len('"a"'))


@pytest.mark.parametrize(
    "name", ["temperature", "tool_choice", "response_format", "stream", "max_tokens", "user"]
)
def test_what_is_not_in_the_prompt_changes_no_link(name: str) -> None:
    assert chain([said("user")], fields={name: "a"}) == chain([said("user")])


def test_size_is_that_of_the_text_with_images_at_their_worth() -> None:
    url = f"data:image/png;base64,{PIXEL}"
    part = {"type": "image_url", "image_url": url}
    plain = chain([said("system", "x" * 98), said("user", [])])
    assert plain.sizes == (0, len('"system"') + 100, len('"user"') + 2)
    pictured = chain([said("system", "x" * 98), said("user", [part, part])])
    around = len(msgspec.json.encode([part, part])) - 2 * len(f'"{url}"')
    assert pictured.sizes == (0, plain.sizes[1], len('"user"') + around + 2 * IMAGE_BYTES)


@pytest.mark.parametrize(
    ("roles", "earlier"),
    [
        (["user"], 0),
        (["system", "user"], 0),
        (["system", "user", "assistant", "user"], 3),
        (["user", "assistant", "tool", "assistant", "tool", "tool"], 4),
        (["assistant", "user"], 1),
    ],
)
def test_prompt_of_the_turn_before_ends_where_the_assistant_last_spoke(
    roles: list[str], earlier: int
) -> None:
    messages = [said(role, str(index)) for index, role in enumerate(roles)]
    whole = chain(messages)
    assert whole.earlier == earlier
    if earlier:
        assert whole.links[:earlier] == chain([*messages[: earlier - 1], said("user")]).links[:-1]


def test_opening_is_the_first_user_message_whatever_stands_before_it() -> None:
    opening = chain([said("user", "fix the bug")]).opening
    assert opening
    for messages in (
        [said("system", "a"), said("user", "fix the bug")],
        [said("developer", "b"), said("user", "fix the bug"), said("user", "more")],
    ):
        assert chain(messages, fields={"tools": [1]}).opening == opening
    assert chain([said("user", "fix the bug!")]).opening != opening
    assert chain([said("system"), said("assistant")]).opening == 0


@pytest.mark.parametrize(
    ("message", "has_system"),
    [(said("system"), True), (said("developer"), True), (said("user"), False), ({}, False)],
)
def test_system_prompt_is_known_by_its_role(message: object, has_system: bool) -> None:
    assert chain([message, said("system")]).has_system is has_system


def test_messages_without_values_are_told_apart_by_their_number_and_by_account() -> None:
    links = chain([{}, {}, {}]).links
    assert len(set(links)) == 4
    assert set(links).isdisjoint(chain([{}, {}, {}], ROOT + 1).links)


def long_body() -> bytes:
    roles = ("user", "assistant")
    text = ("Lorem ipsum dolor sit amet. " * 1000)[:26_000]
    messages = [said(roles[n % 2], f"{n} {text}") for n in range(40)]
    return json.dumps({"model": "m", "messages": messages}).encode()


def test_a_long_body_has_the_links_of_its_messages() -> None:
    parsed = ChatBodyReader().read(long_body())
    assert parsed.messages is not None
    assert of_decoded(parsed.messages) == of_decoded(decode_messages(parsed.fields["messages"]))


def test_a_megabyte_is_hashed_without_being_copied() -> None:
    messages = decode_messages(ChatBodyReader().read(long_body()).fields["messages"])
    media = look_at(messages, frozenset())
    tracemalloc.start()
    try:
        prompt_chain(ROOT, {}, messages, media, IMAGE_BYTES)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000


def cpu_seconds(work: Callable[[], object], times: int) -> float:
    """The least of several rounds: what others do on the machine only adds."""
    rounds = []
    for _ in range(15):
        start = time.process_time()
        for _ in range(times):
            work()
        rounds.append((time.process_time() - start) / times)
    return min(rounds)


def test_a_megabyte_costs_a_fraction_of_a_fixed_loop() -> None:
    messages = decode_messages(ChatBodyReader().read(long_body()).fields["messages"])
    media = look_at(messages, frozenset())
    hashed = cpu_seconds(lambda: prompt_chain(ROOT, {}, messages, media, IMAGE_BYTES), 20)
    loop = cpu_seconds(lambda: sum(n * n for n in range(100_000)), 1)
    # The loop takes about 6 ms where hashing takes 0.1 ms; 0.2 ms would be a thirtieth of it.
    assert hashed < loop / 20
