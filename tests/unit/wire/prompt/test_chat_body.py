"""Chats are read in one pass where they are written as usual, and else as all other bodies are."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.apis.chat import read_chat
from penstock.wire.json_body import COUNTED_BYTES, Fields, read_fields, write_fields
from penstock.wire.prompt.chat_body import KEPT_BYTES_MAX, KEPT_MAX, ChatBodyReader
from penstock.wire.prompt.message_media import decode_messages

NO_HOSTS = frozenset[str]()
COMPACT = (",", ":")
STYLES = [COMPACT, (", ", ": "), (" ,\n", " :\t")]
texts = st.text(max_size=8) | st.text('[]{}":,\\ \n0ab', max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["role", "content", "name", "é", 'a"b', "messages"]) | texts
messages = st.lists(st.dictionaries(names, values, max_size=3), max_size=4)
others = st.dictionaries(
    st.sampled_from(["model", "seed", "tools", "x", "é"]) | texts, values, max_size=3
)


def plain(fields: Fields) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in fields.items()}


def same_both_ways(body: bytes, reader: ChatBodyReader | None = None) -> None:
    parsed, fields = (reader or ChatBodyReader()).read(body), read_fields(body)
    assert plain(parsed.fields) == plain(fields)
    if parsed.messages is None:
        return
    assert [plain(each) for each in parsed.messages] == [
        plain(each) for each in decode_messages(fields["messages"])
    ]
    written = bytes(fields["messages"])
    assert body[parsed.array_at :].startswith(written)
    if parsed.messages:
        # Up to the boundary it is a whole prompt, and nothing of it is missing.
        until_there = body[parsed.array_at : parsed.boundary] + b"]"
        assert json.loads(until_there) == json.loads(written)
    read = json.loads(body)
    held = [value for message in read["messages"] for value in message.values()]
    if parsed.has_only_texts:
        assert not any(isinstance(value, list | dict) for value in held)
    if parsed.has_only_scalars:
        del read["messages"]
        assert not any(isinstance(value, list | dict) for value in read.values())


arrays = st.one_of(
    messages.map(lambda each: json.dumps(each, separators=(",", ":"))),
    messages.map(json.dumps),
    st.sampled_from([
        "[]", " []", "[] ", "[1]", "[", "]", "", "0", "[],[]", '[],"n":2,"messages":[]',
        '[{"a":1}],"messages":[{"b":2}]', '[{"a":1}],"stop":[]', '[{"a":1,}]', '[{"a":"]"}]',
        '[{"a":1}],"x":{"messages":[{"a":1}]}', '[{"a":"\\ud800"}]', '[{"a":"é"}]', "null",
    ]),
)  # fmt: skip


@given(
    st.sampled_from(['{"messages":', '{"model":"m","messages": ', '{"messages":[],"messages":']),
    st.lists(arrays, min_size=2, max_size=4),
    st.sampled_from(["}", ',"n":1}', ',"stop":[]}', '],"n":[]}', " }"]),
)
def test_what_was_kept_of_a_body_is_no_other_way_to_read_the_next(
    before: str, between: list[str], after: str
) -> None:
    reader = ChatBodyReader()
    for array in ['[{"role":"user","content":"hi"}]', *between]:
        body = f"{before}{array}{after}".encode()
        read = outcome(read_fields, body)
        assert outcome(lambda text: reader.read(text).fields, body) == read
        if not isinstance(read, str):
            with contextlib.suppress(InvalidRequest):
                same_both_ways(body, reader)


def test_fields_of_one_body_are_no_other_body_s() -> None:
    reader = ChatBodyReader()
    body = b'{"model":"kept","messages":[{"role":"user","content":"%d"}],"n":1}'
    for number in range(3):
        parsed = reader.read(body % number)
        assert bytes(parsed.fields["messages"]) == b'[{"role":"user","content":"%d"}]' % number
        assert bytes(parsed.fields["n"]) == b"1"
        del parsed.fields["n"]
        parsed.fields["more"] = Raw(b"1")
        assert len(parsed.fields) == 3


def test_only_so_many_kinds_of_bodies_are_kept_and_no_long_ones() -> None:
    reader = ChatBodyReader()
    for number in range(100):
        reader.read(b'{"messages":[{"role":"user","content":"hi"}],"seed":%d}' % number)
    assert len(reader.kept) == KEPT_MAX
    reader.read(b'{"messages":[{"role":"user","content":"hi"}],"user":"%s"}' % (b"x" * 2000))
    assert all(len(around.after) < KEPT_BYTES_MAX for around in reader.kept)


@given(messages, others, st.booleans(), st.booleans(), st.sampled_from(STYLES))
def test_both_ways_agree(
    chat: list[dict[str, object]],
    rest: dict[str, object],
    is_first: bool,
    is_ascii: bool,
    style: tuple[str, str],
) -> None:
    pairs = {"messages": chat, **rest} if is_first else {**rest, "messages": chat}
    same_both_ways(json.dumps(pairs, separators=style, ensure_ascii=is_ascii).encode())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("content", ["hi", "x" * 2 * COUNTED_BYTES], ids=["short", "long"])
def test_usual_chat_is_read_at_once_however_long_and_spaced_it_is(
    content: str, style: tuple[str, str]
) -> None:
    pairs = {"model": "m", "messages": [{"role": "user", "content": content}], "n": 1}
    body = json.dumps(pairs, separators=style).encode()
    assert ChatBodyReader().read(body).messages is not None
    same_both_ways(body)


@pytest.mark.parametrize("style", STYLES)
def test_tools_with_a_field_of_that_name_do_not_hide_the_messages(style: tuple[str, str]) -> None:
    pairs = {"tools": [{"messages": {"type": "array"}}] * 3, "messages": [{"role": "user"}]}
    body = json.dumps(pairs, separators=style).encode()
    assert ChatBodyReader().read(body).messages == [{"role": Raw(b'"user"')}]
    same_both_ways(body)


def test_chat_without_spaces_is_known_to_hold_texts_only() -> None:
    reader = ChatBodyReader()
    for _ in range(2):
        parsed = reader.read(b'{"model":"m","messages":[{"role":"user","content":"[{"}],"n":1}')
        assert parsed.messages == [{"role": Raw(b'"user"'), "content": Raw(b'"[{"')}]
        assert parsed.has_only_texts
        assert parsed.has_only_scalars


@pytest.mark.parametrize(
    "content", ["[]", "{}", '[{"type":"image_url","image_url":{"url":"http://x/"}}]']
)
def test_array_in_a_message_is_never_taken_for_a_text(content: str) -> None:
    for before in ("", '{"é":"x","content":"y"},', '{"a\\"b":1},', "{},", '{ "a":1},'):
        body = f'{{"messages":[{before}{{"role":"user","content":{content}}}]}}'
        assert not ChatBodyReader().read(body.encode()).has_only_texts


def test_media_from_elsewhere_are_refused_in_short_chats_too() -> None:
    part = '{"type":"image_url","image_url":{"url":"http://inside/"}}'
    body = f'{{"messages":[{{"role":"user","content":[{part}]}}]}}'.encode()
    parsed = ChatBodyReader().read(body)
    with pytest.raises(InvalidRequest):
        read_chat(parsed.fields, NO_HOSTS, parsed)


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"a":1}],"messages":[{"a":1}]}',
        b'{"messages":[{"a":1}],"messages":[{"b":2}]}',
        b'{"messages":[{"a":1}],"n":0,"messages":7}',
        b'{"x":{"messages":[{"a":1}]},"messages":[{"a":1}]}',
        b'{"x":{"messages": [{"a":1} ]},"messages": [{"a":1} ]}',
        b'{"messages":[{"a":1}],"x":{"messages":[{"a":1}]}}',
        b'{"mess\\u0061ges":[{"a":1}],"x":{"messages":[{"a":1}]}}',
        b'{"x\\"messages":[{"a":1}],"messages":[{"a":1}]}',
        b'{"x\\"messages": [{"a":1} ],"messages": [{"a":1} ]}',
        b'{"x":"\\"messages\\":[]","messages":[{"a":"\\"messages\\":"}]}',
        b'{"messages":[{"a":1,"a":2}]}',
        b'{"messages":[{"role":"a","content":"b","role":"c"}]}',
        b'{"messages":[{"a":1,"b":2,"a":"]"}],"cache_salt":"x","tools":[{"y":"]"}]}',
        b'{"messages":[{"k[":"v"}],":1}],":":0,","n":1}',
        b'{"messages":[{}]}',
        b'{"messages":[]}',
        b'{"messages":0}',
        b'{"messages":{"role":"a"}}',
        b'{"tools":[{"messages":[{"role":"a"}]}]}',
        b'{"prompt":"messages"}',
        b' {"messages":[{"a":[1]}] , "tools" : [ ] }',
    ],
)
def test_odd_bodies_are_read_as_the_plain_way_reads_them(body: bytes) -> None:
    same_both_ways(body)
    json.loads(write_fields(ChatBodyReader().read(body).fields))


@given(st.binary(max_size=40), st.integers(0, 60), st.sampled_from(STYLES))
def test_damaged_bodies_raise_nothing_but_refusals(
    junk: bytes, at: int, style: tuple[str, str]
) -> None:
    pairs = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "n": 1}
    body = json.dumps(pairs, separators=style).encode()
    for damaged in (body[:at] + junk + body[at:], body[:at] + junk + body[at + 1 :]):
        read = outcome(lambda text: ChatBodyReader().read(text).fields, damaged)
        assert read == outcome(read_fields, damaged)


def outcome(read: Callable[[bytes], Fields], body: bytes) -> dict[str, bytes] | str:
    try:
        return plain(read(body))
    except InvalidRequest as refusal:
        return str(refusal)
