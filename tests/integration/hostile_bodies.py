"""Bodies for the hot paths: valid ones that are then spoiled, in one place or in many.

Every field that `wire/schemas.py` knows gets every odd value; so do fields that only Workers AI or
only the engine knows, reserved ones, and unknown ones.
"""

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from tests.integration.hostile_json import Pair, escaped_key, key, obj, odd, text

from penstock.wire import schemas

_KNOWN = [field.encode_name for field in msgspec.structs.fields(schemas.ChatCompletionRequest)]
_OTHERS = [
    "prompt", "raw", "lora", "image", "functions", "function_call", "requests", "request_id",
    "input", "options", "queueRequest", "rejectIfBusy", "logit_bias", "user", "store", "metadata",
    "service_tier", "modalities", "audio", "priority", "cache_salt", "session_id", "vllm_xargs",
    "kv_transfer_params", "min_tokens", "ignore_eos", "stop_token_ids", "guided_json", "echo",
    "add_generation_prompt", "top_k", "best_of", "prompt_logprobs", "nothing-knows-this", "", "\0",
    "__proto__", "usage", "error", "id", "é", "\ud83d\ude00",
]  # fmt: skip
FIELDS = sorted({*_KNOWN, *_OTHERS})

_ROLES = (
    b'"user"', b'"system"', b'"assistant"', b'"tool"', b'"developer"', b'"function"', b'"USER"',
    b'""', b'"\\u0000"', b"null", b"1", b"[]",
)  # fmt: skip
_URLS = (
    "http://169.254.169.254/latest/meta-data", "https://example.com/a.png", "file:///etc/passwd",
    "ftp://x/y", "//x/y", "x", "", " ", "http://", "http://[::1", "http://[::1]:99999/", "http://a b/",
    "http://user:secret@x/", "http://x\\@y/", "HTTP://X/", "javascript:alert(1)", "blob:x", "data:",
    "data:,", "data:;base64,", "data:image/png;base64,", "data:image/png;base64,!!!!",
    "data:image/png;base64,AAA", "data:image/png;base64,AAAA", "DATA:image/png;BASE64,AAAA",
    " data:image/png;base64,AAAA", "data:image/png,AAAA", "data:image/svg+xml;base64,AAAA",
    "data:;;;;base64,AAAA", "data:image/png;base64;base64,AAAA", "data:image/png;base64,AA\n==",
    "data:image/png;base64,ÄÄÄÄ", "data:image/png;base64," + "A" * 4000, "data:" + "x" * 70_000,
    "http://" + "a." * 5000, "http://xn--a/", "http://１２７.0.0.1/", "\0", "\ud800",
)  # fmt: skip
_MEDIA_KEYS = (
    "image_url", "video_url", "audio_url", "input_audio", "file", "image_pil", "image_embeds",
    "audio_embeds", "prompt_embeds", "text", "type", "refusal", "uuid",
)  # fmt: skip
_TOOLS = (
    b'[{"type":"function","function":{"name":"f","parameters":{}}}]', b'[{"name":"flat"}]',
    b'[{"type":"namespace","tools":[]}]', b'[{"type":"web_search"}]', b"[{}]", b"[null]", b"[[]]",
    b'[{"type":"function"}]', b'[{"type":"function","function":null}]', b'[{"function":{}}]', b'["f"]',
    b'[{"type":"custom","custom":{"name":"c"}}]', b'[{"name":5}]', b'{"type":"function"}', b'"f"',
    b"[" + b",".join([b'{"name":"x"}'] * 300) + b"]",
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
    b'{"type":"json_schema","json_schema":{"name":"n"}}', b'{"type":"json_schema","json_schema":{}}',
    b'{"type":"json_schema","json_schema":{"name":5,"schema":[]}}', b'{"type":"json_schema"}',
    b'{"type":"json_schema","json_schema":"x"}', b'{"type":["text"]}',
)  # fmt: skip

_url_values = st.builds(
    lambda url, wrap: text({"url": url, "detail": "auto"} if wrap else url),
    st.sampled_from(_URLS),
    st.booleans(),
)
_any_media = st.one_of(_url_values, _url_values, odd)


@st.composite
def _part(draw: DrawFn) -> bytes:
    name = draw(st.sampled_from(_MEDIA_KEYS))
    pairs = [(key("type"), draw(st.sampled_from([text(name), b'"text"', b'"nope"', b"5", b"null"])))]
    pairs.append((key(name), draw(_any_media)))
    return obj(pairs)


_content = st.one_of(
    st.sampled_from([b'"hello"', b"null", b'""']),
    odd,
    st.lists(st.one_of(_part(), odd), min_size=1, max_size=3).map(lambda p: b"[" + b",".join(p) + b"]"),
)


@st.composite
def _message(draw: DrawFn) -> bytes:
    pairs = [(key("role"), draw(st.sampled_from(_ROLES))), (key("content"), draw(_content))]
    if draw(st.booleans()):
        name = draw(
            st.sampled_from(["tool_calls", "tool_call_id", "name", "reasoning", "content", "role", "x"])
        )
        pairs.append((key(name), draw(odd)))
    return obj(pairs)


messages: SearchStrategy[bytes] = st.lists(_message(), min_size=1, max_size=3).map(
    lambda found: b"[" + b",".join(found) + b"]"
)
_tool_pairs: SearchStrategy[Pair] = st.one_of(
    st.sampled_from(_TOOLS).map(lambda value: (key("tools"), value)),
    st.sampled_from(_CHOICES).map(lambda value: (key("tool_choice"), value)),
    st.sampled_from(_FORMATS).map(lambda value: (key("response_format"), value)),
    odd.map(lambda value: (key("tools"), value)),
)
_field_pairs: SearchStrategy[Pair] = st.tuples(
    st.one_of(st.sampled_from(FIELDS).map(key), st.sampled_from(_KNOWN).map(escaped_key)), odd
)


@st.composite
def spoiled_fields(draw: DrawFn, base: list[Pair]) -> bytes:
    """One to three fields of a valid body set to odd values: added, doubled or replaced."""
    pairs = list(base)
    for pair in draw(st.lists(_field_pairs, min_size=1, max_size=3)):
        how = draw(st.sampled_from(["last", "first", "instead"]))
        if how == "instead":
            pairs = [kept for kept in pairs if kept[0] != pair[0]]
        pairs.insert(0 if how == "first" else len(pairs), pair)
    return obj(pairs, draw(st.sampled_from([b"", b" ", b"\r\n\t"])))


@st.composite
def spoiled_messages(draw: DrawFn, base: list[Pair]) -> bytes:
    """Odd messages, parts, media, tools and formats."""
    pairs = [pair for pair in base if pair[0] != key("messages")]
    pairs.append((key("messages"), draw(messages)))
    pairs += draw(st.lists(_tool_pairs, max_size=2))
    return obj(pairs)


@st.composite
def mangled(draw: DrawFn, base: list[Pair]) -> bytes:
    """A valid body whose bytes were spoiled on the way."""
    body = obj(base)
    place = draw(st.integers(0, len(body)))
    junk = draw(st.one_of(st.binary(min_size=1, max_size=8), odd))
    how = draw(st.sampled_from(["flip", "cut", "insert", "swap", "around", "code", "drop"]))
    if how == "flip":
        flipped = bytearray(body)
        flipped[place - 1] ^= draw(st.integers(1, 255))
        return bytes(flipped)
    if how == "cut":
        return body[:place]
    if how == "insert":
        return body[:place] + junk + body[place:]
    if how == "swap":
        return body[place:] + body[:place]
    if how == "around":
        wraps = [b"\xef\xbb\xbf%b", b"[%b]", b"%b%b", b"%b\x00", b"\x00%b", b'"%b"', b"%b,", b" \n%b "]
        wrap = draw(st.sampled_from(wraps))
        return wrap % ((body,) * wrap.count(b"%b"))
    if how == "code":
        coding = draw(st.sampled_from(["utf-16", "utf-32", "utf-7", "cp037", "utf-16-be"]))
        return body.decode().encode(coding)
    return body[:place] + body[place + draw(st.integers(1, 9)) :]
