"""Responses that a gateway refuses: stored state, what a model cannot do, and hostile requests."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import CHAT, PLAIN, Cell, CellFactory
from tests.integration.cells.responses_requests import ask

from penstock.testing import ScriptedEngine

_V1 = "/v1/responses"
_TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
Body = dict[str, Any]


@pytest.fixture(scope="module")
def refusing(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    # A cell that cannot encrypt stores nothing.
    with cells.open({"store.cell_key_file": ""}) as cell:
        yield cell, cell.set_up(CHAT, PLAIN)


@pytest.fixture
def cell(refusing: tuple[Cell, ScriptedEngine]) -> Cell:
    return refusing[0]


@pytest.fixture
def engine(refusing: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return refusing[1]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [_TOOL]}, "tools"),
        ({"text": {"format": {"type": "json_object"}}}, "text"),
    ],
)
def test_capabilities_are_checked(cell: Cell, fields: Body, param: str) -> None:
    refused = cell.post(_V1, {"model": PLAIN, "input": "hello", **fields})
    check_openai(refused, 400, "missing_capability")
    assert refused.json()["error"]["param"] == param
    assert cell.post(_V1, {"model": PLAIN, "input": "hello"}).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"store": True},
        {"background": True},
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"prompt": {"id": "pmpt_1"}},
        {"input": [{"role": "user", "content": "a"}, {"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"id": "msg_1"}]},
    ],
)
def test_stored_state_is_refused_and_says_what_to_send(cell: Cell, fields: Body) -> None:
    refused = cell.post(_V1, {**ask(), **fields})
    message = check_openai(refused, 400, "stored_state_unavailable")
    assert "`store: false`" in message
    refused = cell.post(cell.path("v1/responses"), {**ask(), **fields})
    check_envelope(refused, 400, 8001)


def test_state_that_is_not_asked_for_is_no_reason_to_refuse(cell: Cell) -> None:
    nothing = {"previous_response_id": None, "conversation": None, "prompt": None, "store": None}
    assert cell.post(_V1, {**ask(), **nothing, "background": False}).status_code == 200


def test_flex_is_refused_clearly(cell: Cell) -> None:
    asked = [
        cell.post(_V1, ask(service_tier="flex")),
        cell.post(_V1, ask(), headers={"prefer": "respond-async"}),
    ]
    for refused in asked:
        assert "queued" in check_openai(refused, 400, "invalid_request")
    assert cell.post(_V1, ask(service_tier="auto")).status_code == 200


def _image(url: object) -> list[Body]:
    return [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]


@pytest.mark.parametrize(
    "items",
    [
        _image("http://127.0.0.1:9/x.png"),
        _image({"url": "http://169.254.169.254/"}),
        _image("file:///etc/passwd"),
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://a/"}}]}],
        [{"role": "user", "content": [{"type": "input_file", "file_url": "http://a/"}]}],
        [{"role": "user", "content": [{"video_url": "http://a/"}]}],
        [{
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_image", "image_url": "http://a/"}],
        }],
    ],
)  # fmt: skip
def test_nothing_is_fetched_for_a_caller(cell: Cell, items: list[Body]) -> None:
    refused = cell.post(_V1, {"model": CHAT, "input": items})
    assert "data:" in check_openai(refused, 400, "invalid_request")


_DEEP: Any = json.loads("[" * 70 + "]" * 70)


@pytest.mark.parametrize(
    "fields",
    [
        {"input": None},
        {"input": []},
        {"input": 5},
        {"input": ["text"]},
        {"input": [{"role": "user", "content": _DEEP}]},
        {"input": [{"role": "user", "x": _DEEP}]},
        {"tools": _DEEP},
        {"tools": {"type": "function"}},
        {"text": {"format": {"type": "json_schema", "schema": _DEEP}}},
        {"stream": "yes"},
        {"store": 1},
        {"instructions": ["a"]},
        {"max_output_tokens": -1},
        {"max_output_tokens": "7"},
        {"prompt_cache_key": 7},
    ],
)
def test_hostile_request_is_refused_before_the_engine_sees_it(
    cell: Cell, engine: ScriptedEngine, fields: Body
) -> None:
    before = engine.state().requests
    check_openai(cell.post(_V1, {**ask(), **fields}), 400, "invalid_request")
    assert engine.state().requests == before


def test_what_the_engine_refuses_is_said_in_openais_shape(cell: Cell) -> None:
    refused = cell.post(_V1, ask(max_output_tokens=0))
    check_openai(refused, 400, "invalid_request")
    check_openai(cell.post(_V1, ask({"status": 500})), 502, "engine_failed")
