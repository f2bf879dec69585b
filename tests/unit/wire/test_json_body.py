"""The body: what is not plain JSON is refused by name, the rest goes on as it came, once."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import Error, InvalidRequest, MissingBody
from penstock.wire import json_body
from penstock.wire.json_body import (
    DEPTH_MAX,
    VALUES_MAX,
    Field,
    is_container,
    read_fields,
    refuse_deep,
    refuse_deep_again,
    write_fields,
)

JsonValue = Any

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=6)


def depth_of(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def test_empty_body_is_a_missing_body() -> None:
    with pytest.raises(MissingBody):
        read_fields(b"")


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": "\xff"}',
        b'{"a": "\xc3\x28"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "caf\xe9"}',
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32"),
        b'{"a": [{"b": "\x80"}]}',
    ],
)
def test_body_that_is_not_utf_8_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_fields(body)


def test_refusal_of_bad_utf_8_names_the_byte() -> None:
    with pytest.raises(InvalidRequest, match=r"not UTF-8 \(byte 8\)"):
        read_fields(b'{"a": "b\xff"}')


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize("char", ["é", "€", "🌊"])
def test_long_text_is_read_whole_wherever_its_characters_fall(char: str, shift: int) -> None:
    text = "x" * shift + char * 100_000
    body = json.dumps({"a": text}, ensure_ascii=False).encode()
    assert json.loads(write_fields(read_fields(body))) == {"a": text}


@pytest.mark.parametrize("place", [65_530, 65_535, 65_536, 65_537, 131_071, 131_072, 199_990])
@pytest.mark.parametrize("wrong", [b"\xff", b"\xc3\x28", b"\xe2\x82", b"\xf0\x9f\x8c"])
def test_bad_byte_deep_in_a_long_text_is_found_and_named(wrong: bytes, place: int) -> None:
    body = bytearray(b'{"a":"' + b"x" * 200_000 + b'"}')
    body[place : place + len(wrong)] = wrong
    with pytest.raises(InvalidRequest, match=rf"not UTF-8 \(byte {place}\)"):
        read_fields(bytes(body))


@pytest.mark.parametrize("end", ["é", "€", "🌊"])
@pytest.mark.parametrize("length", [65_536, 131_072])
def test_text_that_ends_within_a_character_is_not_utf_8(end: str, length: int) -> None:
    body = b"x" * (length - 1) + end.encode()[:1]
    with pytest.raises(InvalidRequest, match="not UTF-8"):
        read_fields(body)


def test_byte_order_mark_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="byte order mark"):
        read_fields(b'\xef\xbb\xbf{"a": 1}')


@pytest.mark.parametrize(
    "number", [b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf", b"1e", b"01"]
)
@pytest.mark.parametrize("around", [b'{"a": %s}', b'{"a": [1, %s]}', b'{"a": {"b": [%s]}}'])
def test_number_that_json_does_not_have_is_refused_at_any_depth(
    number: bytes, around: bytes
) -> None:
    with pytest.raises(InvalidRequest):
        read_fields(around % number)


@pytest.mark.parametrize(
    "body", [b"[]", b'"text"', b"1", b"null", b"true", b"{", b'{"a"}', b'{"a":1}x', b"\x00", b" "]
)
def test_body_that_is_not_one_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_fields(body)


def test_white_space_around_and_inside_is_no_part_of_a_value() -> None:
    fields = read_fields(b' \t\r\n{ "a" :\n\t [1 , 2] , "b" : "x" } ')
    assert {name: bytes(raw) for name, raw in fields.items()} == {"a": b"[1 , 2]", "b": b'"x"'}
    assert is_container(fields["a"])
    assert not is_container(fields["b"])


def test_name_given_twice_keeps_its_last_value_and_goes_on_once() -> None:
    body = b'{"model": "a", "n": 1, "model": "b", "\\u006dodel": "c"}'
    written = write_fields(read_fields(body))
    pairs = json.loads(written, object_pairs_hook=list)
    assert sorted(pairs) == [("model", "c"), ("n", 1)]


def test_values_go_on_as_the_caller_wrote_them() -> None:
    raw = b'[ {"a":1.00,  "b":"\\u00e9\\/" , "a":1e2} ]'
    written = write_fields(read_fields(b'{"messages": %s}' % raw))
    assert written == b'{"messages":%s}' % raw


@settings(max_examples=40, deadline=None)
@given(json_objects)
def test_what_is_written_is_equal_to_what_was_read(value: dict[str, JsonValue]) -> None:
    for ascii_only in (True, False):
        body = json.dumps(value, ensure_ascii=ascii_only).encode()
        assert json.loads(write_fields(read_fields(body))) == value


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
@example(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}")
@example(b"[" * 100_000)
@example(b'{"a":' * 50_000)
def test_any_bytes_are_read_or_refused_and_nothing_else(body: bytes) -> None:
    try:
        fields = read_fields(body)
    except Error:
        return
    assert json.loads(write_fields(fields)) == json.loads(body)


@settings(max_examples=40, deadline=None)
@given(json_objects, st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_json_with_a_few_wrong_bytes_is_read_or_refused_and_nothing_else(
    value: dict[str, JsonValue], place: int, wrong: bytes
) -> None:
    body = json.dumps(value).encode()
    place %= len(body)
    body = body[:place] + wrong + body[place + len(wrong) :]
    try:
        fields = read_fields(body)
    except Error:
        return
    for raw in fields.values():
        msgspec.json.decode(raw)


@settings(max_examples=50, deadline=None)
@given(json_values, st.integers(1, 6))
def test_refuse_deep_agrees_with_a_plain_recursive_count(value: JsonValue, levels: int) -> None:
    raw = Raw(json.dumps(value).encode())
    if depth_of(value) <= levels:
        refuse_deep(raw, levels_max=levels, param="x")
        return
    with pytest.raises(InvalidRequest) as refused:
        refuse_deep(raw, levels_max=levels, param="x")
    assert refused.value.param == "x"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet='[]{}"\\ a', max_size=10), max_size=4), st.integers(1, 5))
def test_brackets_inside_strings_are_not_levels(texts: list[str], levels: int) -> None:
    value: JsonValue = texts
    for _ in range(levels - 1):
        value = [value]
    raw = json.dumps(value).encode()
    refuse_deep(raw, levels_max=levels, param="x")
    with pytest.raises(InvalidRequest):
        refuse_deep(b"[%s]" % raw, levels_max=levels, param="x")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_exactly_the_allowed_depth_passes_and_one_more_does_not(opening: str) -> None:
    def nested(levels: int) -> bytes:
        inner = "1"
        for _ in range(levels):
            inner = f"[{inner}]" if opening == "[" else f'{{"a":{inner}}}'
        return inner.encode()

    refuse_deep(nested(DEPTH_MAX), levels_max=DEPTH_MAX, param="x")
    with pytest.raises(InvalidRequest, match="64"):
        refuse_deep(nested(DEPTH_MAX + 1), levels_max=DEPTH_MAX, param="x")


@settings(max_examples=50, deadline=None)
@given(json_values, st.integers(1, 6))
def test_value_that_comes_again_is_refused_as_at_first(value: JsonValue, levels: int) -> None:
    raw = Raw(json.dumps([value, "x" * 2000]).encode())
    for most in (levels, levels + 1, levels, levels + 1):
        if depth_of(value) < most:
            refuse_deep_again(raw, levels_max=most, param="x")
        else:
            with pytest.raises(InvalidRequest):
                refuse_deep_again(raw, levels_max=most, param="x")


def test_values_that_came_before_are_bounded() -> None:
    for number in range(3000):
        refuse_deep_again(Raw(b"[%d,%s]" % (number, b"1," * 1000 + b"1")), levels_max=1, param="x")
    assert 0 < len(json_body._shallow) <= 1024


def test_wide_values_are_not_deep_and_are_checked_quickly() -> None:
    wide = b"[" + b",".join([b'{"a":[[1],[2]]}'] * 20_000) + b"]"
    refuse_deep(wide, levels_max=4, param="x")
    with pytest.raises(InvalidRequest):
        refuse_deep(wide, levels_max=3, param="x")


def test_strict_field_is_read_or_refused_with_its_name() -> None:
    stream = Field("stream", msgspec.json.Decoder(bool | None), None)
    assert stream.read(read_fields(b'{"stream": true}')) is True
    assert stream.read(read_fields(b'{"stream": null}')) is None
    assert stream.read(read_fields(b"{}")) is None
    for wrong in (b"1", b'"true"', b"[]", b"0.0", b"{}"):
        with pytest.raises(InvalidRequest, match="`stream`") as refused:
            stream.read(read_fields(b'{"stream": %s}' % wrong))
        assert refused.value.param == "stream"


@pytest.mark.parametrize("value", [b"1", b"{}", b'""', b"[]"])
def test_body_of_very_many_values_is_refused_before_it_is_read(value: bytes) -> None:
    values = b",".join([value] * (VALUES_MAX + 2))
    body = b'{"input":[%s],"pad":"%s"}' % (values, b"x" * 2**20)
    with pytest.raises(InvalidRequest, match="more than"):
        read_fields(body)


def test_commas_of_a_long_text_are_not_values() -> None:
    text = "a, b, " * (VALUES_MAX // 2 + 1)
    assert json.loads(bytes(read_fields(json.dumps({"text": text}).encode())["text"])) == text
