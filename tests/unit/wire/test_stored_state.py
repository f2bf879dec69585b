"""What a Responses request says about state, and what is refused of it."""

import json
from typing import Any

import pytest
from msgspec import Raw

from penstock.errors import InvalidRequest, StateUnavailable
from penstock.wire.apis.stored_state import StateWish, read_state, referred_to


def read(**fields: object) -> StateWish:
    return read_state({name: Raw(json.dumps(value).encode()) for name, value in fields.items()})


@pytest.mark.parametrize(
    ("fields", "wish"),
    [
        ({}, StateWish()),
        ({"store": None, "background": False, "conversation": None}, StateWish()),
        ({"store": False}, StateWish(store=False)),
        ({"store": True}, StateWish(store=True, needs="store")),
        (
            {"previous_response_id": "r", "store": False},
            StateWish(store=False, previous="r", needs="previous_response_id"),
        ),
        ({"conversation": "c"}, StateWish(conversation="c", needs="conversation")),
        ({"conversation": {"id": "c"}}, StateWish(conversation="c", needs="conversation")),
        ({"background": True}, StateWish(is_background=True, needs="background")),
        ({"input": [{"type": "item_reference", "id": "x"}]}, StateWish(needs="input")),
        ({"input": "an item_reference"}, StateWish()),
    ],
)
def test_wish_is_read(fields: dict[str, Any], wish: StateWish) -> None:
    assert read(**fields) == wish


@pytest.mark.parametrize("name", ["store", "background"])
def test_wrong_types_are_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**{name: "yes"})
    assert refused.value.param == name


def test_stored_prompts_are_not_served() -> None:
    with pytest.raises(StateUnavailable) as refused:
        read(prompt={"id": "p"})
    assert refused.value.param == "prompt"


def test_response_and_conversation_exclude_each_other() -> None:
    with pytest.raises(InvalidRequest):
        read(previous_response_id="r", conversation="c")


@pytest.mark.parametrize(
    ("item", "id"),
    [
        ({"type": "item_reference", "id": "x"}, "x"),
        ({"id": "x"}, "x"),
        ({"id": "x", "type": None}, "x"),
        ({"id": "x", "role": "user", "content": "a"}, None),
        ({"type": "reasoning", "id": "x"}, None),
    ],
)
def test_references_are_told_from_items(item: dict[str, Any], id: str | None) -> None:
    assert referred_to(item, "input.0") == id


def test_reference_without_an_id_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        referred_to({"type": "item_reference"}, "input.0")
