"""Anthropic's Messages through a whole gateway: metered from its own events, and its own errors."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_request_id
from tests.integration.cells.gateway_cell import CHAT, PLAIN, Cell, CellFactory, prompt
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.cells.metering_lines import attempts
from tests.integration.cells.named_streams import named_events
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.metering import usd
from penstock.testing import ScriptedEngine

_V1 = "/v1/messages"
_QUICK = {"metering.drain_seconds": 0.05, "ingress.body_bytes_max": 4_000_000}
_TOOL = {"name": "weather", "input_schema": {"type": "object"}}
Body = dict[str, Any]


@pytest.fixture(scope="module")
def speaking(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open(_QUICK) as cell:
        yield cell, cell.set_up(CHAT, PLAIN)


@pytest.fixture
def cell(speaking: tuple[Cell, ScriptedEngine]) -> Iterator[Cell]:
    yield speaking[0]
    speaking[0].wait_until_idle()


@pytest.fixture
def engine(speaking: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return speaking[1]


def ask(script: Body | None = None, text: str = "hello", **fields: object) -> Body:
    return {"model": CHAT, "messages": prompt(script, text), "max_tokens": 64, **fields}


def sent(engine: ScriptedEngine) -> Body:
    """The body that the engine got last."""
    last = engine.state().last_request
    assert last is not None
    body = json.loads(last["body"])
    assert isinstance(body, dict)
    return body


def counted(usage: Body) -> tuple[int, int, int]:
    """Anthropic counts a prompt in three parts; the ledger as one, and the cached part of it."""
    cached = usage["cache_read_input_tokens"]
    prompt_tokens = usage["input_tokens"] + cached + usage["cache_creation_input_tokens"]
    return prompt_tokens, usage["output_tokens"], cached


def counts(row: Body) -> tuple[int, int, int]:
    return row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]


def test_tokens_are_counted_as_the_engine_counts_them_and_cost_nothing(
    cell: Cell, engine: ScriptedEngine
) -> None:
    body = ask(text="a prompt of some words " * 40, system="Be brief.", tools=[_TOOL])
    del body["max_tokens"]
    answer = cell.post(f"{_V1}/count_tokens", body)
    assert answer.status_code == 200, answer.text
    served = engine.state().requests
    whole = cell.post(_V1, {**body, "max_tokens": 4})
    assert answer.json() == {"input_tokens": counted(whole.json()["usage"])[0]}
    assert engine.state().requests == served + 1, "the count was no request to a model"
    rows_of(cell, whole.headers["x-request-id"])
    rows = cell.run(attempts)
    assert answer.headers["x-request-id"] not in [row["request"] for row in rows]


def test_count_of_what_cannot_be_asked_is_refused_in_anthropics_shape(cell: Cell) -> None:
    path = f"{_V1}/count_tokens"
    check_anthropic(
        cell.post(path, {"model": CHAT}), 400, "invalid_request_error", "invalid_request"
    )
    unknown = ask() | {"model": "nobody"}
    check_anthropic(cell.post(path, unknown), 404, "not_found_error", "model_not_found")
    stranger = {"authorization": "Bearer psk_wrong"}
    refused = cell.post(path, ask(), headers=stranger)
    check_anthropic(refused, 401, "authentication_error", "unauthenticated")


def test_a_turn_of_claude_code_is_served(cell: Cell, engine: ScriptedEngine) -> None:
    """As Claude Code 2 sends it: betas in the query, cache marks, a list for the system."""
    mark = {"cache_control": {"type": "ephemeral"}}
    said = [{"type": "text", "text": "hello", **mark}]
    body = ask(stream=True) | {
        "max_tokens": 32_000,
        "system": [{"type": "text", "text": "You are Claude Code.", **mark}],
        "messages": [{"role": "user", "content": said}],
        "tools": [{**_TOOL, "description": "The weather."}],
        "metadata": {"user_id": "user_0_account__session_1"},
        "temperature": 1,
    }
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219"}
    stream = cell.post(f"{_V1}?beta=true", body, headers=headers)
    assert named_events(stream.text)[-1].name == "message_stop"
    assert sent(engine)["messages"] == body["messages"]
    counting = {key: body[key] for key in ("model", "messages", "system", "tools")}
    counted_ = cell.post(f"{_V1}/count_tokens?beta=true", counting, headers=headers)
    assert counted_.json()["input_tokens"] > 0


def check_anthropic(answer: httpx.Response, status: int, kind: str, code: str) -> str:
    """An error as Anthropic's SDKs read it; its message."""
    body = answer.json()
    assert answer.status_code == status, body
    assert body.keys() == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message", "code"}
    assert (body["error"]["type"], body["error"]["code"]) == (kind, code)
    assert body["request_id"] == check_request_id(answer.headers)
    assert answer.headers["x-should-retry"] in ("true", "false")
    return str(body["error"]["message"])


def test_usage_of_answers_and_streams_is_the_ledgers(cell: Cell) -> None:
    text = "count this prompt " * 60
    for _ in range(2):
        answer = cell.post(_V1, ask(text=text))
        message = answer.json()
        assert (message["type"], message["role"]) == ("message", "assistant")
        assert message["content"][0]["text"]
        (row,) = rows_of(cell, answer.headers["x-request-id"])
        assert counts(row) == counted(message["usage"])
        assert answer.headers["x-penstock-cost-usd"] == usd(row["charge_nanousd"])
    stream = cell.post(_V1, ask(text=text, stream=True), headers={"x-penstock-cost": "1"})
    events = named_events(stream.text)
    names = [event.name for event in events]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    (streamed,) = rows_of(cell, stream.headers["x-request-id"])
    assert counts(streamed) == counted(events[-2].data["usage"]) == counts(row)
    assert row["cached_tokens"] > 0
    cost = f": cost-usd {usd(streamed['charge_nanousd'])}\n\nevent: message_stop\n"
    assert cost in stream.text
    assert streamed["first_token_ms"] is not None


def test_x_api_key_is_a_key_and_anthropics_headers_do_no_harm(cell: Cell) -> None:
    headers = {"x-api-key": cell.key, "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}
    url = cell.gateway.url + _V1
    assert cell.client.post(url, json=ask(), headers=headers).status_code == 200
    refused = cell.client.post(url, json=ask(), headers={"x-api-key": "psk_wrong"})
    check_anthropic(refused, 401, "authentication_error", "unauthenticated")


def test_engine_gets_what_was_sent_and_what_is_ours(cell: Cell, engine: ScriptedEngine) -> None:
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    cell.post(_V1, ask(system=system, top_k=5, metadata={"user_id": "u"}))
    got = sent(engine)
    assert (got["system"], got["top_k"], got["max_tokens"]) == (system, 5, 64)
    assert got["model"] == "scripted"
    assert got["cache_salt"]
    assert "metadata" not in got
    unbounded = ask()
    del unbounded["max_tokens"]
    assert cell.post(_V1, unbounded).status_code == 200
    assert sent(engine)["max_tokens"] == 4096


@pytest.mark.parametrize("is_stream", [False, True])
def test_tool_is_called_and_its_result_is_taken(cell: Cell, is_stream: bool) -> None:
    answer = cell.post(_V1, ask(text="CALL weather", tools=[_TOOL], stream=is_stream))
    if is_stream:
        starts = [e.data["content_block"] for e in named_events(answer.text) if "start" in e.name
                  and "content_block" in e.data]  # fmt: skip
        (call,) = [block for block in starts if block["type"] == "tool_use"]
    else:
        (call,) = [block for block in answer.json()["content"] if block["type"] == "tool_use"]
        assert answer.json()["stop_reason"] == "tool_use"
    assert call["name"] == "weather"
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}
    said = [{"type": "tool_use", "id": call["id"], "name": "weather", "input": {}}]
    messages = [
        *prompt(text="CALL weather"),
        {"role": "assistant", "content": said},
        {"role": "user", "content": [result]},
    ]
    second = cell.post(_V1, {**ask(tools=[_TOOL]), "messages": messages}).json()
    assert [block["type"] for block in second["content"]] == ["text"]


def test_structured_output_is_made(cell: Cell) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    wanted = {"format": {"type": "json_schema", "schema": schema}}
    answer = cell.post(_V1, ask(output_config=wanted))
    assert json.loads(answer.json()["content"][0]["text"]).keys() == {"city"}
    refused = cell.post(_V1, {**ask(output_config=wanted), "model": PLAIN})
    check_anthropic(refused, 400, "invalid_request_error", "missing_capability")
    refused = cell.post(_V1, {**ask(tools=[_TOOL]), "model": PLAIN})
    check_anthropic(refused, 400, "invalid_request_error", "missing_capability")


@pytest.mark.parametrize("fault", ["cut_after", "close_after"])
def test_broken_stream_ends_in_an_error_event_and_is_counted(cell: Cell, fault: str) -> None:
    stream = cell.post(_V1, ask({"tokens": 20, fault: 6}, stream=True))
    assert stream.status_code == 200
    events = named_events(stream.text)
    last = events[-1].data
    assert (events[-1].name, last["error"]["type"]) == ("error", "api_error")
    assert last["error"]["code"] == "engine_lost"
    assert last["request_id"] == stream.headers["x-request-id"]
    (row,) = rows_of(cell, stream.headers["x-request-id"])
    # The prompt was counted at the start, and what was made by its events.
    assert row["prompt_tokens"] == events[0].data["message"]["usage"]["input_tokens"] > 0
    made = [event.name for event in events].count("content_block_delta")
    assert (row["output_tokens"], row["charge_reason"]) == (made, "estimated")
    assert row["charge_nanousd"] > 0


def test_engines_own_error_event_goes_through_once(cell: Cell) -> None:
    stream = cell.post(_V1, ask({"tokens": 20, "error_after": 6}, stream=True))
    names = [event.name for event in named_events(stream.text)]
    assert names[-1] == "error"
    assert names.count("error") == 1
    (row,) = rows_of(cell, stream.headers["x-request-id"])
    assert (row["outcome"], row["error"]) == ("failed", "engine_failed")


def test_client_that_leaves_is_counted_by_the_events_that_passed(cell: Cell) -> None:
    body = ask({"tokens": 500, "interval": 0.02}, stream=True, max_tokens=600)
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, body, cell.key))
        _, _, headers = client.read_head()
        client.read_until(b"content_block_delta")
    (row,) = rows_of(cell, headers["x-request-id"])
    assert 1 <= row["output_tokens"] < 500
    assert (row["outcome"], row["charge_reason"]) == ("client_left", "estimated")


def test_session_is_the_header(cell: Cell) -> None:
    answer = cell.post(_V1, ask(), headers={"x-session-id": "claude-1"})
    (row,) = rows_of(cell, answer.headers["x-request-id"])
    assert row["session"] == "claude-1"


def test_every_refusal_has_the_type_that_belongs_to_its_status(cell: Cell) -> None:
    kinds = [
        (cell.post(_V1, {**ask(), "model": "no/such"}), 404, "not_found_error", "model_not_found"),
        (cell.post(_V1, b""), 400, "invalid_request_error", "missing_body"),
        (cell.post(_V1, b"{"), 400, "invalid_request_error", "invalid_request"),
        (cell.post(_V1, b" " * 5_000_000), 413, "request_too_large", "body_too_large"),
        (cell.post(_V1, ask({"status": 500})), 502, "api_error", "engine_failed"),
        (
            cell.post(_V1, ask(service_tier="flex")),
            400,
            "invalid_request_error",
            "invalid_request",
        ),
    ]
    for answer, status, kind, code in kinds:
        check_anthropic(answer, status, kind, code)
    check_envelope(cell.post(cell.path("v1/messages"), b"{"), 400, 5006)


def _source(**fields: object) -> list[Body]:
    return [{"type": "image", "source": fields}]


@pytest.mark.parametrize(
    "content",
    [
        _source(type="url", url="http://169.254.169.254/"),
        _source(url="file:///etc/passwd"),
        [{"type": "document", "source": {"type": "url", "url": "http://a/"}}],
        [
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": _source(type="url", url="ftp://a"),
            }
        ],
    ],
)
def test_nothing_is_fetched_for_a_caller(
    cell: Cell, engine: ScriptedEngine, content: list[Body]
) -> None:
    before = engine.state().requests
    message = [{"role": "user", "content": content}]
    refused = cell.post(_V1, {**ask(), "messages": message})
    told = check_anthropic(refused, 400, "invalid_request_error", "invalid_request")
    assert "data:" in told
    assert engine.state().requests == before
    refused = cell.post(_V1, ask(system=content))
    check_anthropic(refused, 400, "invalid_request_error", "invalid_request")


def test_image_that_is_no_base64_is_refused(cell: Cell) -> None:
    bad = _source(type="base64", media_type="image/png", data="***")
    refused = cell.post(_V1, {**ask(), "messages": [{"role": "user", "content": bad}]})
    check_anthropic(refused, 400, "invalid_request_error", "bad_base64")


_DEEP: Any = json.loads("[" * 70 + "]" * 70)


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"role": "user", "content": _DEEP}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "x": _DEEP}]}]},
        {"messages": [{"role": "user", "content": ["text"]}]},
        {"system": _DEEP},
        {"tools": _DEEP},
        {"output_config": {"format": {"schema": _DEEP}}},
        {"output_config": []},
        {"stream": 1},
        {"max_tokens": "7"},
        {"max_tokens": -1},
    ],
)
def test_hostile_request_is_refused_before_the_engine_sees_it(
    cell: Cell, engine: ScriptedEngine, fields: Body
) -> None:
    before = engine.state().requests
    refused = cell.post(_V1, {**ask(), **fields})
    check_anthropic(refused, 400, "invalid_request_error", "invalid_request")
    assert engine.state().requests == before


def test_long_prompt_goes_through_whole(cell: Cell, engine: ScriptedEngine) -> None:
    messages = [{"role": "user", "content": f"{number} " * 1000} for number in range(60)]
    answer = cell.post(_V1, {**ask(), "messages": messages})
    assert answer.status_code == 200, answer.text[:300]
    assert len(sent(engine)["messages"]) == 60
