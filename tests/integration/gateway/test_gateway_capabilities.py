"""A model is asked only for what it can do, and nothing in a request makes the engine fetch."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import (
    CHAT,
    NATIVE,
    PLAIN,
    Cell,
    CellFactory,
    chat_body,
    prompt,
)

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG not really").decode()
_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
_FLAT = [{"name": "look", "description": "d", "parameters": {"type": "object"}}]


def _image(url: object, *, key: str = "image_url") -> list[dict[str, Any]]:
    value = url if isinstance(url, dict) else {"url": url}
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", key: value}]
    return [{"role": "user", "content": parts}]


@pytest.fixture(scope="module")
def fetching(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    """A gateway whose operator lets engines fetch from one host."""
    settings = {"ingress.media_hosts": ["media.example", "127.0.0.1"]}
    with cells.open(settings) as cell:
        yield cell, cell.set_up(CHAT)


def test_an_image_to_a_text_only_model_names_vision(cell: Cell, engine: ScriptedEngine) -> None:
    before = engine.state().requests
    for model in (PLAIN, NATIVE):
        body = {"messages": _image(_PNG)}
        assert "`vision`" in check_envelope(cell.run_model(model, body), 400, 8001)
        assert "`vision`" in check_openai(
            cell.chat({"model": model, **body}), 400, "missing_capability"
        )
    assert engine.state().requests == before


def test_an_image_to_a_model_with_vision_arrives_as_it_was(
    cell: Cell, engine: ScriptedEngine
) -> None:
    for url in (_PNG, _PNG.upper()[:5] + _PNG[5:], "data:image/png;base64, aGk="):
        messages = _image({"url": url, "detail": "low"})
        assert cell.chat({"model": CHAT, "messages": messages}).status_code == 200, url
        last = engine.state().last_request
        assert last is not None
        assert json.loads(last["body"])["messages"] == messages


@pytest.mark.parametrize("tools", [_TOOLS, _FLAT])
def test_tools_to_a_model_without_them_name_tools(cell: Cell, tools: list[Any]) -> None:
    body = {"messages": prompt(), "tools": tools}
    assert "`tools`" in check_envelope(cell.run_model(PLAIN, body), 400, 8001)
    answer = cell.chat({"model": PLAIN, **body})
    assert "`tools`" in check_openai(answer, 400, "missing_capability")
    assert answer.json()["error"]["param"] == "tools"


def test_no_tools_are_no_tools(cell: Cell) -> None:
    none_at_all: list[list[Any] | None] = [[], None]
    for tools in none_at_all:
        assert cell.chat(chat_body(PLAIN, tools=tools)).status_code == 200


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
def test_a_wanted_structure_names_structured_output(cell: Cell, kind: str) -> None:
    wanted = {"type": kind, "json_schema": {"type": "object"}}
    body = {"messages": prompt(), "response_format": wanted}
    assert "`structured_output`" in check_envelope(cell.run_model(PLAIN, body), 400, 8001)


def test_plain_text_needs_no_capability(cell: Cell) -> None:
    for wanted in ({"type": "text"}, None):
        assert cell.chat(chat_body(PLAIN, response_format=wanted)).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://media.example/a.png",
        "HTTP://MEDIA.EXAMPLE/a.png",
        "file:///etc/passwd",
        "ftp://media.example/a.png",
        "//media.example/a.png",
        "/etc/passwd",
        "",
        " data:image/png;base64,aGk=",
        "http://[::1",
        "http://[half",
        "gopher://x",
        "s3://bucket/a.png",
        "javascript:1",
        "http:\\\\media.example",
        "http://\u2100.example",
    ],
)
def test_media_from_elsewhere_is_refused(cell: Cell, engine: ScriptedEngine, url: str) -> None:
    before = engine.state().requests
    for key in ("image_url", "video_url", "audio_url"):
        for value in ({"url": url}, url):
            part = {"type": key, key: value}
            body = {"model": CHAT, "messages": [{"role": "user", "content": [part]}]}
            message = check_openai(cell.chat(body), 400, "invalid_request")
            assert "`data:`" in message
    assert engine.state().requests == before


@pytest.mark.parametrize(
    "raw",
    [
        rb'[{"role":"user","content":[{"type":"image_url","im\u0061ge_url":{"url":"http://x/"}}]}]',
        rb'[{"role":"user","c\u006fntent":[{"type":"image_url","image_url":{"url":"http://x/"}}]}]',
        rb'[{"role":"user","content":[{"type":"image_url","image_url":{"\u0075rl":"http://x/"}}]}]',
        rb'[{"role":"user","content":[{"type":"image_url","image_url":{"url":"\u0068ttp://x/"}}]}]',
        rb'[{"role":"user","content":[{"image_url":{"url":"http://x/"}}]}]',
        rb'[{"role":"user","content":[{"type":"text","text":"a","image_url":"http://x/"}]}]',
        rb'[ {"role":"user", "content" : [ {"type":"x","image_url":{"url":"http://x/"}} ] } ]',
        rb'[{"role":"tool","content":[{"type":"image_url","image_url":{"url":"http://x/"}}]}]',
        rb'[{"role":"user","content":"a","content":[{"image_url":{"url":"http://x/"}}]}]',
        rb'[{"role":"user","content":[{"image_url":{"url":"data:,"},"image_url":"http://x/"}]}]',
    ],
)
def test_no_spelling_evades_the_check_of_media(
    cell: Cell, engine: ScriptedEngine, raw: bytes
) -> None:
    before = engine.state().requests
    body = b'{"model":"%s","mess\\u0061ges":%s}' % (CHAT.encode(), raw)
    check_openai(cell.post(_V1, body), 400, "invalid_request")
    assert engine.state().requests == before


def test_an_escaped_name_does_not_evade_the_check_of_capabilities(cell: Cell) -> None:
    messages = json.dumps(_image(_PNG)).replace("image_url", "im\\u0061ge_url").encode()
    body = b'{"model":"%s","messages":%s}' % (PLAIN.encode(), messages)
    check_openai(cell.post(_V1, body), 400, "missing_capability")
    tools = json.dumps(_TOOLS).encode()
    body = b'{"model":"%s","messages":[{"role":"user","content":"a"}],"t\\u006fols":%s}'
    check_openai(cell.post(_V1, body % (PLAIN.encode(), tools)), 400, "missing_capability")


def test_svg_and_other_encodings_are_refused(cell: Cell) -> None:
    svg = "data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode()
    body = {"model": CHAT, "messages": _image(svg)}
    assert "SVG" in check_openai(cell.chat(body), 400, "invalid_request")
    for url in ("data:image/png,abc", "data:,", "data:image/png;base64,a", "data:;base64,é"):
        body = {"model": CHAT, "messages": _image(url)}
        check_openai(cell.chat(body), 400, "bad_base64")


@pytest.mark.parametrize(
    "url",
    ["http://media.example/a.png", "HTTPS://MEDIA.EXAMPLE:8443/a?b=c", "http://127.0.0.1/x"],
)
def test_listed_hosts_are_let_by(fetching: tuple[Cell, ScriptedEngine], url: str) -> None:
    cell, engine = fetching
    messages = _image(url)
    assert cell.chat({"model": CHAT, "messages": messages}).status_code == 200
    last = engine.state().last_request
    assert last is not None
    assert json.loads(last["body"])["messages"] == messages


@pytest.mark.parametrize(
    "url",
    [
        "http://other.example/a.png",
        "http://media.example.evil/a.png",
        "http://evil/media.example",
        "http://media.example@evil/",
        "http://evil\\@media.example/",
        "http://evil#@media.example/",
        "http://media.example:80@evil/",
        "http://media.example /",
        "http://media.example\t/",
        "file://media.example/a.png",
        "ftp://media.example/a.png",
        "//media.example/a.png",
        "http:media.example/a.png",
        "http:///media.example/a.png",
    ],
)
def test_hosts_that_only_look_listed_are_refused(
    fetching: tuple[Cell, ScriptedEngine], url: str
) -> None:
    cell, engine = fetching
    before = engine.state().requests
    check_openai(cell.chat({"model": CHAT, "messages": _image(url)}), 400, "invalid_request")
    assert engine.state().requests == before
