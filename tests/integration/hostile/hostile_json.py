"""Odd JSON, as bytes: values that are wrong, extreme or not JSON at all, and objects made of them.

Bytes and not Python values, because the worst of them have no Python value: NaN, lone surrogates,
doubled keys, half a string, a thousand open brackets.
"""

import json

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Pair = tuple[bytes, bytes]

_LONG = b'"' + b"a" * 70_000 + b'"'
_FIXED = (
    b"null", b"true", b"false", b"0", b"-0", b"-1", b"1", b"2", b"129", b"1.5", b"-0.0", b"1e5",
    b"1E400", b"-1e-400", b"9" * 19, b"9" * 40, b"9" * 5000, b"0." + b"3" * 5000, b"NaN",
    b"Infinity", b"-Infinity", b"01", b"+1", b".5", b"1.", b"0x10", b"1_000", b"'a'", b"undefined",
    b"", b" ", b"tru", b"-", b"/**/1", b"//\n1", b"\xef\xbb\xbf1", b"\x00", b'"', b'"\\', b'"a',
    b'""', b'"\\u0000"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\ud83d"',
    b'"\\x41"', b'"\\u12"', b'"\\q"', b'"\x01"', b'"\x7f"', b'"\xff\xfe"', b'"\xed\xa0\x80"',
    b'"\xc0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x80\xa8"', b'"a\nb"', b'"true"', b'"1"', _LONG,
    b"[]", b"[null]", b"[1,]", b"[,]", b"[[]]", b'[""]', b'["a",1]', b"[{}]", b"[[{}]]", b"{}",
    b'{"":""}', b'{"a":1,"a":2}', b'{"a":1,}', b"{a:1}", b"{'a':1}", b'{"a"}', b'{"a":}', b"{1:2}",
    b'{"type":null}', b'{"type":[]}', b'{"type":"function"}', b'{"type":"json_schema"}',
    b'{"type":"json_schema","json_schema":null}', b'{"type":"json_schema","json_schema":[]}',
    b'{"type":"json_schema","json_schema":{"schema":5}}', b'{"url":null}', b'{"url":5}',
    b"]", b"}", b"[1", b'{"a":1', b"[" * 3000, b'{"a":' * 3000,
)  # fmt: skip


def _nested(opener: str, levels: int) -> bytes:
    if opener == "[":
        return b"[" * levels + b"]" * levels
    if opener == "{":
        return b'{"a":' * levels + b"1" + b"}" * levels
    return b'[{"a":' * levels + b'"x"' + b"}]" * levels


# Around the limit of 64 levels, and around Python's own limit of 1,000 calls.
deep: SearchStrategy[bytes] = st.builds(
    _nested,
    st.sampled_from("[{m"),
    st.one_of(
        st.integers(55, 70),
        st.integers(300, 350),
        st.integers(450, 520),
        st.integers(880, 1010),
        st.sampled_from([1500, 20_000]),
    ),
)

_texts = st.text(max_size=6).map(lambda text: json.dumps(text).encode())
_plain_texts = st.text(max_size=6).map(
    lambda text: json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
)
_numbers = st.one_of(st.integers(), st.floats()).map(lambda number: json.dumps(number).encode())
_small = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
).map(lambda value: json.dumps(value).encode())

# Mostly the fixed list: it is what was found to hurt somewhere, and it costs nothing to draw.
odd: SearchStrategy[bytes] = st.one_of(
    st.sampled_from(_FIXED), st.sampled_from(_FIXED), _texts, _plain_texts, _numbers, _small, deep
)


def obj(pairs: list[Pair], space: bytes = b"") -> bytes:
    """An object of raw keys (quotes included) and raw values, in this order, doubled ones too."""
    glue = b"," + space
    return b"{" + space + glue.join(key + b":" + space + value for key, value in pairs) + b"}"


def key(name: str) -> bytes:
    return json.dumps(name).encode()


def escaped_key(name: str) -> bytes:
    """The same name, spelled with escapes: a parser that compares bytes would not know it."""
    return b'"' + b"".join(b"\\u%04x" % ord(letter) for letter in name) + b'"'


def text(value: object) -> bytes:
    return json.dumps(value).encode()
