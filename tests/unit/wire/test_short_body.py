"""Short chats are read in one pass where they are written as usual, and else as all others are."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.chat import read_chat
from penstock.wire.json_body import Fields, read_fields, write_fields
from penstock.wire.messages import decode_messages
from penstock.wire.short_body import read_short_chat

NO_HOSTS = frozenset[str]()
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
names = st.sampled_from(["role", "content", "name", "é", 'a"b', "messages"])
messages = st.lists(st.dictionaries(names, values, max_size=3), max_size=3)
others = st.dictionaries(st.sampled_from(["model", "seed", "tools", "x", "é"]), values, max_size=3)


def plain(fields: Fields) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in fields.items()}


def same_both_ways(body: bytes) -> None:
    parsed, fields = read_short_chat(body), read_fields(body)
    assert plain(parsed.fields) == plain(fields)
    if parsed.messages is None:
        return
    assert [plain(each) for each in parsed.messages] == [
        plain(each) for each in decode_messages(fields["messages"])
    ]
    read = json.loads(body)
    held = [value for message in read["messages"] for value in message.values()]
    if parsed.has_only_texts:
        assert not any(isinstance(value, list | dict) for value in held)
    if parsed.has_only_scalars:
        del read["messages"]
        assert not any(isinstance(value, list | dict) for value in read.values())


@given(messages, others, st.booleans(), st.booleans())
def test_both_ways_agree(
    chat: list[dict[str, object]], rest: dict[str, object], is_first: bool, is_ascii: bool
) -> None:
    pairs = {"messages": chat, **rest} if is_first else {**rest, "messages": chat}
    for separators in ((",", ":"), (", ", ": ")):
        same_both_ways(json.dumps(pairs, separators=separators, ensure_ascii=is_ascii).encode())


def test_usual_chat_is_read_at_once_and_known_to_hold_texts_only() -> None:
    parsed = read_short_chat(b'{"model":"m","messages":[{"role":"user","content":"[{"}],"n":1}')
    assert parsed.messages == [{"role": Raw(b'"user"'), "content": Raw(b'"[{"')}]
    assert parsed.has_only_texts
    assert parsed.has_only_scalars


@pytest.mark.parametrize(
    "content", ["[]", "{}", '[{"type":"image_url","image_url":{"url":"http://x/"}}]']
)
def test_array_in_a_message_is_never_taken_for_a_text(content: str) -> None:
    for before in ("", '{"é":"x","content":"y"},', '{"a\\"b":1},', "{},"):
        body = f'{{"messages":[{before}{{"role":"user","content":{content}}}]}}'
        assert not read_short_chat(body.encode()).has_only_texts


def test_media_from_elsewhere_are_refused_in_short_chats_too() -> None:
    part = '{"type":"image_url","image_url":{"url":"http://inside/"}}'
    body = f'{{"messages":[{{"role":"user","content":[{part}]}}]}}'.encode()
    parsed = read_short_chat(body)
    with pytest.raises(InvalidRequest):
        read_chat(parsed.fields, NO_HOSTS, parsed)


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"a":1}],"messages":[{"a":1}]}',
        b'{"messages":[{"a":1}],"messages":[{"b":2}]}',
        b'{"x":{"messages":[{"a":1}]},"messages":[{"a":1}]}',
        b'{"messages":[{"a":1}],"x":{"messages":[{"a":1}]}}',
        b'{"mess\\u0061ges":[{"a":1}],"x":{"messages":[{"a":1}]}}',
        b'{"x\\"messages":[{"a":1}],"messages":[{"a":1}]}',
        b'{"x":"\\"messages\\":[]","messages":[{"a":"\\"messages\\":"}]}',
        b'{"messages":[{"a":1,"a":2}]}',
        b'{"messages":[]}',
        b'{"messages":0}',
        b'{"prompt":"messages"}',
        b' {"messages":[{"a":[1]}] , "tools" : [ ] }',
    ],
)
def test_odd_bodies_are_read_as_the_plain_way_reads_them(body: bytes) -> None:
    same_both_ways(body)
    json.loads(write_fields(read_short_chat(body).fields))


@given(st.binary(max_size=3), st.integers(0, 60))
def test_damaged_bodies_raise_nothing_but_refusals(junk: bytes, at: int) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"n":1}'
    body = body[:at] + junk + body[at + 1 :]
    assert outcome(read_short_fields, body) == outcome(read_fields, body)


def read_short_fields(body: bytes) -> Fields:
    return read_short_chat(body).fields


def outcome(read: Callable[[bytes], Fields], body: bytes) -> dict[str, bytes] | str:
    try:
        return plain(read(body))
    except InvalidRequest as refusal:
        return str(refusal)
