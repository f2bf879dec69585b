"""What stands behind a known prompt is read as the plain way reads all of it, or not at all."""

import json
from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Error
from penstock.wire.json_body import COUNTED_BYTES, VALUES_MAX, read_fields
from penstock.wire.prompt import prompt_suffix
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.message_media import decode_messages
from penstock.wire.prompt.parsed_body import ParsedBody
from penstock.wire.prompt.prompt_suffix import read_suffix

BEFORE = b'{"model":"m","messages":'
KNOWN = b'[{"role":"user","content":"x"} , {"role":"assistant","content":"y"}'
ODD = st.text('[]{}":,\\ \n0ab\u00fc', max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | ODD
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(ODD, v, max_size=3), max_leaves=8
)
MESSAGES = st.lists(st.dictionaries(ODD | st.just("content"), VALUES, max_size=3), max_size=4)


def known(commas: int | None = None) -> KnownPrompt:
    return KnownPrompt(
        array_at=len(BEFORE),
        boundary=len(BEFORE + KNOWN),
        commas=commas,
        root=1,
        image_bytes=0,
        links=array("Q", bytes(3 * 8)),
        sizes=array("I", bytes(3 * 4)),
        earlier=0,
        ends_with_answer=True,
        has_system=False,
        opening=0,
        images=array("Q"),
        system=None,
    )


def read(rest: bytes) -> ParsedBody | None:
    return read_suffix(BEFORE + KNOWN + rest, known())


def assert_as_plain(rest: bytes) -> None:
    parsed, body = read(rest), BEFORE + KNOWN + rest
    if parsed is None:
        return
    plain = read_fields(body)
    assert {name: bytes(raw) for name, raw in parsed.fields.items()} == {
        name: bytes(raw) for name, raw in plain.items()
    }
    assert parsed.messages is not None
    assert [*map(shown, parsed.messages)] == [*map(shown, decode_messages(plain["messages"])[2:])]
    assert parsed.array_at == len(BEFORE)
    # Up to there it is a whole prompt, and nothing of it is missing.
    assert body[: parsed.boundary].endswith(b"}")
    assert body[parsed.boundary :].lstrip().startswith(b"]")
    until_there = msgspec.json.decode(body[: parsed.boundary] + b"]}")["messages"]
    assert until_there == msgspec.json.decode(plain["messages"])


def shown(message: dict[str, msgspec.Raw]) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in message.items()}


@given(
    messages=MESSAGES,
    after=st.dictionaries(ODD | st.just("messages"), VALUES, max_size=2),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]),
    spaces=st.text(" \t\r\n", max_size=3),
)
def test_it_is_read_as_the_plain_way_reads_it(
    messages: list[dict[str, Any]],
    after: dict[str, Any],
    separators: tuple[str, str],
    spaces: str,
) -> None:
    more = json.dumps(messages, separators=separators, ensure_ascii=False)[1:-1]
    fields = json.dumps(after, separators=separators, ensure_ascii=False)[1:-1]
    rest = f"{',' if messages else ''}{more}{spaces}]{',' if after else ''}{fields}}}"
    assert_as_plain(rest.encode())
    assert read(rest.encode()) is not None or "messages" in after


@given(st.text('[]{}":,\\ \n0ab', max_size=30) | st.binary(max_size=20), st.integers(0, 60))
def test_a_damaged_one_is_left_to_the_plain_way(junk: str | bytes, at: int) -> None:
    rest = b',{"role":"user","content":"next"}],"stream":true,"n":1}'
    damaged = rest[:at] + (junk if isinstance(junk, bytes) else junk.encode()) + rest[at:]
    try:
        read_fields(BEFORE + KNOWN + damaged)
    except Error:
        assert read(damaged) is None
    else:
        assert_as_plain(damaged)


@pytest.mark.parametrize(
    "rest",
    [
        b'],"messages":[{"role":"user","content":"other"}]}',
        b'],"messages":7}',
        b',{"role":"user"}],"x":{"messages":[]},"messages":[]}',
        b",7]}",
        b"",
        b"]}]",
    ],
)
def test_another_prompt_behind_it_is_left_to_the_plain_way(rest: bytes) -> None:
    assert read(rest) is None


def test_nobody_can_write_what_stands_for_the_known_ones() -> None:
    stand_in = prompt_suffix._KNOWN_ONE
    assert len(stand_in) >= 32
    assert read(b'],"messages":' + stand_in.replace(stand_in[3:19], b"0" * 16) + b"]}") is None


def test_commas_are_counted_over_all_of_a_long_body() -> None:
    body = BEFORE + KNOWN + b',{"role":"user","content":"' + b"z" * COUNTED_BYTES + b'"}]}'
    counted, added_up = read_suffix(body, known()), read_suffix(body, known(commas=100))
    assert counted is not None
    assert added_up is not None
    assert counted.commas == body.count(b",")
    assert added_up.commas == 100 + 2
    assert read_suffix(body, known(commas=VALUES_MAX)) is None
