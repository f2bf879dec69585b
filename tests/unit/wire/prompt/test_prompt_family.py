"""The prompt family: the same for the turns of one agent, whatever language its prompt is in."""

import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.wire.prompt.family import FAMILIES_MAX, PromptFamilies
from penstock.wire.prompt.message_media import decode_messages

if TYPE_CHECKING:
    from penstock.wire.json_body import Fields


def family(
    system: object,
    *,
    tools: object = None,
    escaped: bool = False,
    families: PromptFamilies | None = None,
) -> str:
    raw = json.dumps([{"role": "system", "content": system}], ensure_ascii=escaped)
    return of_raw(raw.encode(), tools, families)


def of_raw(messages: bytes, tools: object = None, families: PromptFamilies | None = None) -> str:
    fields: Fields = {"messages": Raw(messages)}
    if tools is not None:
        fields["tools"] = Raw(msgspec.json.encode(tools))
    made = PromptFamilies() if families is None else families
    return made.find(fields, decode_messages(fields["messages"]))


WIDE = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.integers(480, 560), WIDE, st.integers(0, 3100), WIDE)
@example(0, "é日🌊", 1024, "")
@example(3071, "🌊", 1, "x")
def test_text_of_any_letters_and_length_has_a_family_by_its_first_bytes(
    first: int, text: str, times: int, end: str
) -> None:
    system = "a" * first + text * (1 + times // 30) + "x" * times + end
    found = family(system)
    assert len(found) == 16
    assert family(system, escaped=True) == found, "however its letters are written"
    assert family([{"type": "text", "text": system}]) == found, "however it is cut into parts"
    short = system.encode()[:512].decode("utf-8", "ignore")
    if len(short.encode()) == 512:
        assert family(short) == found
        assert family(short + "2026-11-15") == found


@pytest.mark.parametrize("letter", ["a", "é", "日", "🌊", "\n", '"', "\\", "\u0001"])
@pytest.mark.parametrize("start", range(13))
def test_cut_inside_any_letter_is_no_error(letter: str, start: int) -> None:
    system = "s" * start + letter * 4000
    assert family(system) == family(system + "later") == family(system, escaped=True)


def test_first_512_bytes_tell_families_apart_and_nothing_later_does() -> None:
    assert family("a" * 511 + "b") != family("a" * 512)
    assert family("a" * 512 + "b") == family("a" * 512 + "c") == family("a" * 512)


def test_tools_count_by_their_sorted_names_only() -> None:
    openai = [{"type": "function", "function": {"name": n, "parameters": {}}} for n in ("b", "a")]
    flat = [{"name": "a"}, {"name": "b", "description": "x"}]
    assert family("s", tools=openai) == family("s", tools=flat)
    assert family("s", tools=openai) != family("s", tools=openai[:1])
    assert family("s", tools=openai) != family("s")
    assert family("s", tools=[{"name": "ab"}]) != family("s", tools=flat)


@pytest.mark.parametrize("tools", [[], None, [1], {"a": 1}, "x", [{"name": 5}]])
def test_tools_that_are_not_tools_have_no_names(tools: object) -> None:
    assert family("s", tools=tools) == family("s")


@pytest.mark.parametrize("content", [None, 5, True, {"a": 1}, [1, "x"], [["deep"]], ""])
def test_system_message_without_text_is_like_none(content: object) -> None:
    assert family(content) == ""


def test_developer_is_system_too_and_only_the_first_of_eight_messages_counts() -> None:
    user = {"role": "user", "content": "u"}
    rules = {"role": "developer", "content": "rules"}
    later = {"role": "system", "content": "other"}
    assert of_raw(json.dumps([user, rules, later]).encode()) == family("rules")
    assert of_raw(json.dumps([user] * 8 + [rules]).encode()) == ""
    assert of_raw(json.dumps([user]).encode()) == ""
    assert of_raw(b'[{"role":"system"},{"content":"x"}]') == ""


def test_families_are_found_again_however_many_there_are() -> None:
    families = PromptFamilies()
    found = [family(f"agent {number}", families=families) for number in range(5000)]
    assert len(set(found)) == 5000
    assert len(families) <= FAMILIES_MAX
    assert [family(f"agent {number}", families=families) for number in range(5000)] == found
