"""Values of a long body are counted outside of its strings, piece by piece, wherever it is cut."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.json_body import (
    COUNTED_BYTES,
    FIELDS_MAX,
    ITEM_NAMES_MAX,
    ITEMS_MAX,
    NAME_CHARACTERS_MAX,
    VALUES_MAX,
    check_items,
    check_names,
    check_text,
    count_values,
    read_fields,
    refuse_deep,
)

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# All that a string may hold which is mistaken for its end, or for what stands outside.
_TEXTS = st.text(alphabet='\\"[]{},: ab\n', max_size=40)


def plain_count(body: bytes) -> int:
    outside = _STRING.sub(b"", body)
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_TEXTS | st.integers() | st.lists(_TEXTS, max_size=3), max_size=8), st.integers(0, 9)
)
def test_values_are_those_outside_of_strings_wherever_the_pieces_end(
    values: list[Any], shift: int
) -> None:
    """The same few values over and over, so that each of them stands at the end of some piece."""
    unit = json.dumps(values).encode()
    count = (COUNTED_BYTES + 100_000) // (len(unit) + 1)
    if count * (len(values) + 10) > VALUES_MAX:
        count = 2000
    text = b" " * shift + b"[" + b",".join([unit] * count) + b"," + b" " * COUNTED_BYTES + b"0]"
    if plain_count(text) <= VALUES_MAX:
        assert count_values(text) == plain_count(text)


@pytest.mark.parametrize("length", range(65_530, 65_542))
@pytest.mark.parametrize("tail", [b'\\\\"', b'\\""', b'\\\\\\""', b'"'])
def test_escape_at_the_end_of_a_piece_escapes_what_follows(length: int, tail: bytes) -> None:
    body = b'["' + b"a" * (length - 2) + tail + b",[{" + b" " * COUNTED_BYTES + b"}]]"
    assert count_values(body) == plain_count(body) == 4


@pytest.mark.parametrize("length", [65_534, 65_535, 65_536, 65_537])
def test_backslashes_without_end_are_told_by_pairs(length: int) -> None:
    body = b'["' + b"\\" * (4 * length) + b'",1' + b" " * COUNTED_BYTES + b"]"
    assert count_values(body) == 2


@pytest.mark.parametrize("unit", [b"0,", b"[],", b'"",', b'{"a":0},', b"[", b'\\"",'], ids=str)
def test_too_many_values_are_refused_whatever_they_are(unit: bytes) -> None:
    body = b"[" + unit * (8 * 2**20 // len(unit))
    with pytest.raises(InvalidRequest, match="more than 400000 values"):
        check_text(body)


@pytest.mark.parametrize("unit", [b'"', b'"a"'], ids=str)
def test_strings_with_nothing_between_them_are_bounded_too(unit: bytes) -> None:
    body = b"[" + unit * (8 * 2**20 // len(unit))
    with pytest.raises(InvalidRequest, match="more than 400000 values"):
        count_values(body)
    with pytest.raises(InvalidRequest, match="JSON"):
        read_fields(b'{"a":' + body)


def test_separators_inside_of_strings_refuse_nothing() -> None:
    body = b'["' + b"," * (2 * VALUES_MAX) + b'",1]'
    assert check_text(body) == count_values(body) == 2


@pytest.mark.parametrize("levels", [3, 60, 61, 62, 200])
def test_depth_of_long_values_is_found_in_one_pass(levels: int) -> None:
    nested = b"[" * levels + b'"]]]"' + b"]" * levels
    raw = Raw(b"[" + b",".join([nested] * 3000) + b',"' + b"x" * COUNTED_BYTES + b'"]')
    if levels < 61:
        refuse_deep(raw, levels_max=61, param="x")
        return
    with pytest.raises(InvalidRequest, match="nested deeper"):
        refuse_deep(raw, levels_max=61, param="x")


def test_fields_and_their_names_are_bounded() -> None:
    raw = Raw(b"0")
    check_names({f"n{number}": raw for number in range(FIELDS_MAX)})
    check_names({"n" * NAME_CHARACTERS_MAX: raw})
    with pytest.raises(InvalidRequest, match="more than 1000 fields"):
        check_names({f"n{number}": raw for number in range(FIELDS_MAX + 1)})
    with pytest.raises(InvalidRequest, match="characters"):
        check_names({"n" * (NAME_CHARACTERS_MAX + 1): raw})


def test_messages_and_their_names_are_bounded() -> None:
    raw = Raw(b"0")
    check_items([{"role": raw, "content": raw}] * ITEMS_MAX, "messages")
    with pytest.raises(InvalidRequest, match="more than 10000 items") as refused:
        check_items([{}] * (ITEMS_MAX + 1), "messages")
    assert refused.value.param == "messages"
    with pytest.raises(InvalidRequest, match="more than 20000 names"):
        check_items([{f"n{number}": raw for number in range(ITEM_NAMES_MAX + 1)}], "input")
