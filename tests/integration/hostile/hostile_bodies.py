"""Bodies for the hot paths: valid ones that are then spoiled, in one place or in many.

Every field that `wire/resources/schemas.py` knows gets every odd value; so do fields that only
Workers AI or only the engine knows, reserved ones, and unknown ones.
"""

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from tests.integration.hostile.hostile_json import Pair, escaped_key, key, obj, odd, text

from penstock.wire.resources import schemas

_KNOWN = [field.encode_name for field in msgspec.structs.fields(schemas.ChatCompletionRequest)]
_OTHERS = [
    "prompt", "raw", "lora", "image", "functions", "function_call", "requests", "request_id",
    "input", "options", "queueRequest", "rejectIfBusy", "logit_bias", "user", "store", "metadata",
    "service_tier", "modalities", "audio", "priority", "cache_salt", "session_id", "vllm_xargs",
    "kv_transfer_params", "ignore_eos", "stop_token_ids", "guided_json", "echo",
    "add_generation_prompt", "top_k", "best_of", "prompt_logprobs", "nothing-knows-this", "", "\0",
    "__proto__", "usage", "error", "id", "é", "\ud83d\ude00",
]  # fmt: skip
# Not `min_tokens`: the scripted engine would make that many.
FIELDS = sorted({*_KNOWN, *_OTHERS})

_ROLES = (
    b'"user"', b'"system"', b'"assistant"', b'"tool"', b'"developer"', b'"function"', b'"USER"',
    b'""', b'"\\u0000"', b"null", b"1", b"[]",
)  # fmt: skip
_URLS = (
    "http://169.254.169.254/latest/meta-data", "https://example.com/a.png", "file:///etc/passwd",
    "ftp://x/y", "//x/y", "x", "", " ", "http://", "http://[::1", "http://[::1]:99999/",
    "http://a b/", "http://user:secret@x/", "http://x\\@y/", "HTTP://X/", "javascript:alert(1)",
    "blob:x", "data:", "data:,", "data:;base64,", "data:image/png;base64,",
    "data:image/png;base64,!!!!", "data:image/png;base64,AAA", "data:image/png;base64,AAAA",
    "DATA:image/png;BASE64,AAAA", " data:image/png;base64,AAAA", "data:image/png,AAAA",
    "data:image/svg+xml;base64,AAAA", "data:;;;;base64,AAAA", "data:image/png;base64;base64,AAAA",
    "data:image/png;base64,AA\n==", "data:image/png;base64,ÄÄÄÄ",
    "data:image/png;base64," + "A" * 4000, "data:" + "x" * 70_000, "http://" + "a." * 5000,
    "http://xn--a/", "http://\uff11\uff12\uff17.0.0.1/", "\0", "\ud800",
)  # fmt: skip
_MEDIA_KEYS = (
    "image_url", "video_url", "audio_url", "input_audio", "file", "image_pil", "image_embeds",
    "audio_embeds", "prompt_embeds", "text", "type", "refusal", "uuid",
)  # fmt: skip
_TOOLS = (
    b'[{"type":"function","function":{"name":"f","parameters":{}}}]', b'[{"name":"flat"}]',
    b'[{"type":"namespace","tools":[]}]', b'[{"type":"web_search"}]', b"[{}]", b"[null]", b"[[]]",
    b'[{"type":"function"}]', b'[{"type":"function","function":null}]', b'[{"function":{}}]',
    b'["f"]', b'[{"type":"custom","custom":{"name":"c"}}]', b'[{"name":5}]', b'{"type":"function"}',
    b'"f"', b"[" + b",".join([b'{"name":"x"}'] * 300) + b"]",
)  # fmt: skip
_CHOICES = (
    b'"auto"', b'"none"', b'"required"', b'"any"', b'""', b'{"type":"function"}', b"{}",
    b'{"type":"function","function":{"name":"f"}}', b'{"type":"function","function":{"name":null}}',
    b'{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}', b'{"type":5}',
)  # fmt: skip
_FORMATS = (
    b'{"type":"text"}', b'{"type":"json_object"}', b'{"type":"xml"}', b'{"type":""}',
    b'{"type":"json_schema","json_schema":{"type":"object"}}', b'{"json_schema":{}}',
    b'{"type":"json_schema","json_schema":{"name":"n","schema":{"$ref":"#"}}}',
    b'{"type":"json_schema","json_schema":{"name":"n"}}',
    b'{"type":"json_schema","json_schema":{}}',
    b'{"type":"json_schema","json_schema":{"name":5,"schema":[]}}', b'{"type":"json_schema"}',
    b'{"type":"json_schema","json_schema":"x"}', b'{"type":["text"]}',
)  # fmt: skip

_url_values = st.builds(
    lambda url, wrap: text({"url": url, "detail": "auto"} if wrap else url),
    st.sampled_from(_URLS),
    st.booleans(),
)
_any_media = st.one_of(_url_values, _url_values, odd)


_part_types = st.sampled_from([b'"text"', b'"image_url"', b'"nope"', b"5", b"null"])
_parts = st.tuples(_part_types, st.sampled_from(_MEDIA_KEYS).map(key), _any_media).map(
    lambda part: obj([(key("type"), part[0]), (part[1], part[2])])
)


def _array(values: list[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


_contents = st.one_of(
    st.sampled_from([b'"hello"', b"null", b'""']),
    odd,
    st.lists(st.one_of(_parts, odd), min_size=1, max_size=3).map(_array),
)
_MESSAGE_KEYS = ("tool_calls", "tool_call_id", "name", "reasoning", "content", "role", "x")
_plain_messages = st.tuples(st.sampled_from(_ROLES), _contents).map(
    lambda said: [(key("role"), said[0]), (key("content"), said[1])]
)
_extra_pairs = st.tuples(st.sampled_from(_MESSAGE_KEYS).map(key), odd)
_messages = st.one_of(
    _plain_messages.map(obj),
    st.tuples(_plain_messages, _extra_pairs).map(lambda found: obj([*found[0], found[1]])),
)
messages: SearchStrategy[bytes] = st.lists(_messages, min_size=1, max_size=3).map(_array)

_tool_pairs: SearchStrategy[Pair] = st.one_of(
    st.sampled_from(_TOOLS).map(lambda value: (key("tools"), value)),
    st.sampled_from(_CHOICES).map(lambda value: (key("tool_choice"), value)),
    st.sampled_from(_FORMATS).map(lambda value: (key("response_format"), value)),
    odd.map(lambda value: (key("tools"), value)),
)
_field_pairs: SearchStrategy[Pair] = st.tuples(
    st.sampled_from([*map(key, FIELDS), *map(escaped_key, _KNOWN)]), odd
)
_changes = st.lists(
    st.tuples(_field_pairs, st.sampled_from(["last", "first", "instead"])), min_size=1, max_size=3
)
_spaces = st.sampled_from([b"", b" ", b"\r\n\t"])


@st.composite
def spoiled_fields(draw: DrawFn, base: list[Pair]) -> bytes:
    """One to three fields of a valid body set to odd values: added, doubled or replaced."""
    pairs = list(base)
    for pair, how in draw(_changes):
        if how == "instead":
            pairs = [kept for kept in pairs if kept[0] != pair[0]]
        pairs.insert(0 if how == "first" else len(pairs), pair)
    return obj(pairs, draw(_spaces))


_some_tool_pairs = st.lists(_tool_pairs, max_size=2)


@st.composite
def spoiled_messages(draw: DrawFn, base: list[Pair]) -> bytes:
    """Odd messages, parts, media, tools and formats."""
    pairs = [pair for pair in base if pair[0] != key("messages")]
    return obj([*pairs, (key("messages"), draw(messages)), *draw(_some_tool_pairs)])


_places = st.integers(0, 10**6)
_junk = st.one_of(st.binary(min_size=1, max_size=8), odd)
_spoilers = st.sampled_from(["flip", "cut", "insert", "swap", "around", "code", "drop"])
_WRAPS = (b"\xef\xbb\xbf%b", b"[%b]", b"%b%b", b"%b\x00", b"\x00%b", b'"%b"', b"%b,", b" \n%b ")
_CODINGS = ("utf-16", "utf-32", "utf-7", "cp037", "utf-16-be")


@st.composite
def mangled(draw: DrawFn, base: list[Pair]) -> bytes:
    """A valid body whose bytes were spoiled on the way."""
    body, how, number = obj(base), draw(_spoilers), draw(_places)
    place = number % len(body)
    before, after = body[:place], body[place:]
    match how:
        case "flip":
            spoiled = before + bytes([after[0] ^ (1 + number % 255)]) + after[1:]
        case "cut":
            spoiled = before
        case "insert":
            spoiled = before + draw(_junk) + after
        case "swap":
            spoiled = after + before
        case "around":
            wrap = _WRAPS[number % len(_WRAPS)]
            spoiled = wrap % ((body,) * wrap.count(b"%b")) + b" " * (number % 7)
        case "code":
            spoiled = body.decode().encode(_CODINGS[number % len(_CODINGS)])[: 40 + place]
        case _:
            spoiled = before + after[1 + number % 9 :]
    return spoiled
