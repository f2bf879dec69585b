"""A long body read in one pass is the same as one read the plain way, whatever is in it."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Error
from penstock.wire.json_body import read_fields
from penstock.wire.large_body import LARGE_BYTES, read_body

LONG = "x" * LARGE_BYTES
ODD = st.text('[]{}":,\\ \n0ab', max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | ODD
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(ODD, v, max_size=3), max_leaves=8
)
MESSAGES = st.lists(st.dictionaries(ODD | st.just("content"), VALUES, max_size=3), max_size=4)


def plain(body: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in read_fields(body).items()}


def at_once(body: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in read_body(body).fields.items()}


def decoded(body: bytes) -> Any:
    return msgspec.json.decode(read_fields(body)["messages"])


@given(
    before=st.dictionaries(ODD, VALUES, max_size=2),
    messages=MESSAGES,
    after=st.dictionaries(ODD, VALUES, max_size=2),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]),
)
def test_both_ways_agree(
    before: dict[str, Any],
    messages: list[dict[str, Any]],
    after: dict[str, Any],
    separators: tuple[str, str],
) -> None:
    value = {**before, "pad": LONG, "messages": messages, **after}
    body = json.dumps(value, separators=separators, ensure_ascii=False).encode()
    parsed = read_body(body)
    assert at_once(body) == plain(body)
    if parsed.messages is not None:
        shown = [{k: msgspec.json.decode(v) for k, v in m.items()} for m in parsed.messages]
        assert shown == decoded(body)


def test_usual_body_is_read_at_once() -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": LONG}]}).encode()
    parsed = read_body(body)
    assert parsed.messages is not None
    assert bytes(parsed.fields["messages"]) == bytes(read_fields(body)["messages"])


@pytest.mark.parametrize(
    "text",
    [
        '{"messages":[{"k[":"v"}],":1}],":":0,","pad":"%s"}',
        '{"messages":[{"role":"a","content":"b","role":"c"}],"pad":"%s"}',
        '{"messages":[{"a":1,"b":2,"a":"]"}],"cache_salt":"x","tools":[{"y":"]"}],"pad":"%s"}',
        '{"messages":[{"role":"a"}],"messages":[{"role":"b"}],"pad":"%s"}',
        '{"messages":[{"role":"a"}],"pad":"%s","messages":7}',
        '{"input":{"messages":[{"role":"a"}]},"messages":[{"role":"b"}],"pad":"%s"}',
        '{"pad":"%s","messages":[{}]}',
        '{"pad":"%s","messages":[]}',
        '{"pad":"%s","messages":{"role":"a"}}',
        '{"pad":"%s","tools":[{"messages":[{"role":"a"}]}]}',
    ],
)
def test_odd_bodies_are_read_as_the_plain_way_reads_them(text: str) -> None:
    body = (text % LONG).encode()
    assert at_once(body) == plain(body)


@given(st.binary(max_size=40), st.integers(0, 60))
def test_damaged_bodies_raise_nothing_but_refusals(junk: bytes, at: int) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": LONG}], "n": 1}).encode()
    damaged = body[:at] + junk + body[at:]
    try:
        expected: dict[str, bytes] | str = plain(damaged)
    except Error as refused:
        expected = refused.code
    try:
        found: dict[str, bytes] | str = at_once(damaged)
    except Error as refused:
        found = refused.code
    assert found == expected
