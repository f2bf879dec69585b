"""`messages`: media only as `data:` URLs or from listed hosts, whatever the caller tries."""

import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import BadBase64, Error, InvalidRequest
from penstock.wire.json_body import DEPTH_MAX
from penstock.wire.prompt.message_media import decode_messages, look_at

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n123").decode()
HOSTS = frozenset({"images.example.com"})
NO_HOSTS = frozenset[str]()


def look(messages: object, hosts: frozenset[str] = NO_HOSTS) -> bool:
    return bool(look_at(decode_messages(Raw(json.dumps(messages).encode())), hosts).images)


def with_part(part: object) -> list[object]:
    return [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]


def image(url: object) -> list[object]:
    return with_part({"type": "image_url", "image_url": {"url": url}})


def test_text_needs_no_vision() -> None:
    assert not look([{"role": "user", "content": "hello"}])
    assert not look(with_part({"type": "text", "text": "http://example.com/x.png"}))
    assert not look(with_part("plain text part"))


@pytest.mark.parametrize("content", [None, "", [], "data:text/plain,x"])
def test_null_and_empty_contents_pass(content: object) -> None:
    assert not look([{"role": "assistant", "content": content}, {"role": "assistant"}])


def test_tool_ids_may_repeat_across_turns_and_contain_dots_and_colons() -> None:
    call = {
        "id": "functions.f:0",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
    }
    turn = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "1"},
    ]
    assert not look(turn * 3)


@pytest.mark.parametrize(
    "url",
    [
        PNG,
        PNG.replace("data:", "DATA:"),
        "data:image/jpeg;base64,",
        "data:image/png;charset=utf-8;base64,AAAA",
        "data:;base64,AAAA",
        PNG.replace("base64,", "base64, "),
        PNG + "\n",
    ],
)
def test_image_as_a_data_url_passes_and_needs_vision(url: str) -> None:
    assert look(image(url))
    assert look(with_part({"type": "image_url", "image_url": url}))
    assert look(with_part({"image_url": url}))
    assert look(with_part({"type": "input_image", "image_url": url}))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/a.png",
        "https://example.com/a.png",
        "HTTP://example.com/a.png",
        "hTtPs://example.com/a.png",
        " http://example.com/a.png",
        "\thttp://example.com/a.png",
        "ht\ntp://example.com/a.png",
        "\x00http://example.com/a.png",
        "//example.com/a.png",
        "/etc/passwd",
        "a.png",
        "",
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "ftp://example.com/a.png",
        "gopher://example.com/",
        "http:example.com",
        "http://",
        "http://[",
        "http://[::1",
        "http://]/",
        "http://[not an address]/",
        "http://example.com\uff0fx",
        "http://127.0.0.1:8000/metrics",
        "http://[::1]/",
        "javascript:alert(1)",
        " data:image/png;base64,AAAA",
        "data\t:image/png;base64,AAAA",
        "x-data:image/png;base64,AAAA",
    ],
)
def test_url_that_the_engine_would_fetch_is_refused(url: str) -> None:
    kinds = ("image_url", "video_url", "audio_url")
    for value, kind in itertools.product((url, {"url": url}), kinds):
        for part in ({"type": kind, kind: value}, {kind: value}, {"type": "text", kind: value}):
            with pytest.raises(InvalidRequest) as refused:
                look(with_part(part))
            assert refused.value.param == "messages.0.content"


@pytest.mark.parametrize(
    "url",
    [
        "https://images.example.com/a.png",
        "http://images.example.com/a.png?x=http://other/",
        "https://images.example.com:8443/a.png",
        "https://IMAGES.example.com/a.png",
    ],
)
def test_url_of_a_listed_host_passes(url: str) -> None:
    assert look(image(url), HOSTS)


@pytest.mark.parametrize(
    "url",
    [
        "https://images.example.com.evil.org/a.png",
        "https://evil.org/images.example.com",
        "https://evil.org#images.example.com",
        "https://evil.org?images.example.com",
        "https://images.example.com@evil.org/",
        "https://images.example.com:pw@evil.org/",
        "https://evil.org\\@images.example.com/",
        "https://evil.org\\.images.example.com/",
        "https://images.example.com\\@evil.org/",
        "https://evil.org @images.example.com/",
        "https://images.example.com\t.evil.org/",
        "https://images.example.com\r\nhost: evil.org/",
        "ftp://images.example.com/a.png",
        "file://images.example.com/etc/passwd",
        "//images.example.com/a.png",
        "https:images.example.com",
        "https:///images.example.com",
        "https://images.example.com./a.png",
        "https://xn--images.example.com/",
        "https://images\u3002example\u3002com/",
    ],
)
def test_url_that_only_looks_like_a_listed_host_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        look(image(url), HOSTS)


@pytest.mark.parametrize(
    "messages",
    [
        '[{"role":"user","content":[{"type":"image_url","image\\u005furl":{"url":"http://x/"}}]}]',
        '[{"role":"user","content":[{"type":"image_url","image_url":{"\\u0075rl":"http://x/"}}]}]',
        '[{"role":"user","content":[{"type":"image_url","image_url":{"url":"\\u0068ttp://x/"}}]}]',
        '[{"role":"user","c\\u006fntent":[{"image_url":"http://x/"}]}]',
        '[{"role":"user","content":"a","content":[{"image_url":"http://x/"}]}]',
        '[{"role":"user","content":[{"image_url":"data:;base64,","image_url":"http://x/"}]}]',
        '[{"role":"user","content":[{"image_url":{"url":"data:;base64,","url":"http://x/"}}]}]',
        '[{"role":"user","content": \n [ {"image_url" : "http://x/"} ] }]',
        '[{"role":"system","content":[{"image_url":"http://x/"}]}]',
        '[{"role":"tool","tool_call_id":"1","content":[{"image_url":"http://x/"}]}]',
        '[{"role":"user","content":"a"},{"role":"user","content":[{"image_url":"http://x/"}]}]',
        '[{"role":"user","content":[{"uuid":"u","type":"text","image_url":"http://x/"}]}]',
    ],
)
def test_escapes_doubled_names_and_other_roles_do_not_get_a_url_through(messages: str) -> None:
    with pytest.raises(InvalidRequest):
        look_at(decode_messages(Raw(messages.encode())), NO_HOSTS)


@pytest.mark.parametrize("url", [["http://x/"], {"url": "http://x/"}, 1, True])
def test_url_that_is_no_text_is_refused(url: object) -> None:
    with pytest.raises(InvalidRequest):
        look(image(url))


def test_part_whose_image_is_named_by_uuid_alone_passes() -> None:
    # vLLM takes an image that it has seen before by its id, with a null URL.
    assert look(with_part({"type": "image_url", "image_url": None, "uuid": "seen-before"}))


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,%%%",
        "data:image/png;base64,AAA",
        "data:image/png;base64,AA\x00A",
        "data:image/png;base64,é",
        "data:image/png,AAAA",
        "data:image/png;base64",
        "data:",
        "data:image/png;base64;x,AAAA",
    ],
)
def test_data_url_without_valid_base64_is_refused_as_such(url: str) -> None:
    with pytest.raises(BadBase64) as refused:
        look(image(url))
    assert refused.value.param == "messages.0.content"


@pytest.mark.parametrize("kind", ["image/svg+xml", "IMAGE/SVG+XML", "image/svg+xml;charset=utf-8"])
def test_svg_is_refused(kind: str) -> None:
    with pytest.raises(InvalidRequest, match="SVG"):
        look(image(f"data:{kind};base64,AAAA"))


@pytest.mark.parametrize(
    "messages", [{}, "text", None, 1, [1], ["text"], [None], [[{"role": "user"}]], []]
)
def test_messages_that_are_no_list_of_objects_are_refused_with_param(messages: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        look(messages)
    assert refused.value.param == "messages"


@pytest.mark.parametrize("parts", [[1], [None], [[]], [True]])
def test_parts_that_are_neither_text_nor_objects_are_refused(parts: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        look([{"role": "user", "content": "a"}, {"role": "user", "content": parts}])
    assert refused.value.param == "messages.1.content"


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("place", ["message", "part", "media", "content", "tool_calls"])
def test_depth_64_passes_and_65_is_refused_at_every_place(place: str) -> None:
    def messages(body_depth: int) -> list[object]:
        # The body is level 1, the list of messages 2, a message 3, its parts 4, a part 5.
        if place == "message":
            return [{"role": "user", "content": "x", "extra": nested(body_depth - 3)}]
        if place == "tool_calls":
            return [{"role": "assistant", "tool_calls": nested(body_depth - 3)}]
        if place == "content":
            return [{"role": "user", "content": {"x": nested(body_depth - 4)}}]
        if place == "part":
            return with_part({"type": "text", "text": "x", "extra": nested(body_depth - 5)})
        return with_part({"type": "input_audio", "input_audio": nested(body_depth - 5)})

    look(messages(DEPTH_MAX))
    with pytest.raises(InvalidRequest, match="deep"):
        look(messages(DEPTH_MAX + 1))


part_names = st.sampled_from(
    ["type", "text", "image_url", "url", "video_url", "input_audio", "image_embeds", "file", "x"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(
        ["http://[", "data:,", PNG, "http://x", "https://images.example.com/", "data:"]
    )
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(part_names | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
messages_like = st.lists(
    st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "name"]),
        values | st.lists(st.dictionaries(part_names, values, max_size=3), max_size=3),
        max_size=3,
    )
    | values,
    max_size=3,
)


@settings(max_examples=80, deadline=None)
@given(values | messages_like, st.sampled_from([NO_HOSTS, HOSTS]))
@example(image("http://["), HOSTS)
def test_any_json_is_read_or_refused_and_nothing_else(value: object, hosts: frozenset[str]) -> None:
    try:
        look(value, hosts)
    except Error:
        return
    # What passed names no address but the listed one.
    assert "http://x" not in json.dumps(_media_urls(value))


def _media_urls(value: object) -> list[object]:
    """Every value under a media name inside a content part, as an engine would see it."""
    assert isinstance(value, list)
    found: list[object] = []
    for message in value:
        assert isinstance(message, dict)
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else []:
            if isinstance(part, dict):
                found += [part[k] for k in ("image_url", "video_url", "audio_url") if k in part]
    return found


@pytest.mark.parametrize("levels", [900, 990, 1000, 5000, 100_000])
def test_nesting_beyond_the_interpreters_own_limit_is_refused(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    for raw in (
        deep,
        b'[{"content":%s}]' % deep,
        b'[{"content":[{"x":%s}]}]' % deep,
        b'[{"content":[{"image_url":%s}]}]' % deep,
        b'[{"x":%s}]' % deep,
    ):
        with pytest.raises(InvalidRequest):
            look_at(decode_messages(Raw(raw)), NO_HOSTS)


def test_images_are_counted_and_their_bytes_are_told_apart_from_all_else() -> None:
    text = {"type": "text", "text": "x" * 100}
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    messages = [
        {"role": "user", "content": [text, {"type": "image_url", "image_url": {"url": PNG}}]},
        {"role": "user", "content": [{"image_url": PNG}, audio, "text"]},
        {"role": "user", "content": "data:image/png;base64,AAAA"},
    ]
    raw = json.dumps(messages).encode()
    media = look_at(decode_messages(Raw(raw)), NO_HOSTS)
    assert media.images == 2
    assert media.image_bytes == 2 * len(PNG) + len('""' * 2) + len('{"url": }')
