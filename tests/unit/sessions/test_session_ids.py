"""Ids of responses, items and conversations: they lead back, and foreign ones lead nowhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import new_id
from penstock.sessions.conversation_ids import (
    ConversationId,
    read_conversation_id,
    shown_conversation,
    with_added_ids,
)
from penstock.sessions.response_ids import (
    ResponseId,
    day_of,
    read_item_id,
    read_response_id,
    shown,
    with_ids,
)


def test_ids_lead_back() -> None:
    response, talk = ResponseId(new_id()), ConversationId(new_id())
    assert read_response_id(shown(response)) == response
    assert read_conversation_id(shown_conversation(talk)) == talk


@pytest.mark.parametrize(
    "text",
    ["", "resp_", "resp_1", "resp_" + "g" * 32, "resp_" + "f" * 32, "resp_" + "0" * 33, "x\0y"],
)
def test_foreign_ids_lead_nowhere(text: str) -> None:
    assert read_response_id(text) is None
    assert read_item_id(text.replace("resp", "msg") + "o0") is None


@given(st.from_regex(r"resp_[0-9a-f]{32}", fullmatch=True))
def test_every_id_that_is_read_has_a_day(text: str) -> None:
    """Whatever a caller sends: a date that cannot be reckoned would be an internal error."""
    read = read_response_id(text)
    if read is not None:
        assert day_of(read)


def test_input_items_get_places_and_stored_ones_keep_theirs() -> None:
    first, second = ResponseId(new_id()), ResponseId(new_id())
    stored = with_ids(first, [{"role": "user"}, {"type": "function_call_output"}])
    again = with_ids(second, [*stored, {"type": "reasoning", "id": "rs_other"}])
    assert again[:2] == stored
    for response, place, item in (
        (first, 0, again[0]),
        (first, 1, again[1]),
        (second, 2, again[2]),
    ):
        found = read_item_id(item["id"])
        assert found is not None
        assert (found.response, found.is_input, found.place) == (response, True, place)


def test_items_that_are_added_twice_keep_their_ids() -> None:
    added = with_added_ids([{"role": "user"}, {"id": "msg_other", "role": "user"}])
    assert len({item["id"] for item in added}) == 2
    assert with_added_ids(added) == added
