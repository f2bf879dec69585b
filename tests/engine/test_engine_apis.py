"""Responses and Messages on real weights: the events clients insist on, the engine's own counts."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from tests.engine.real_cell import TEXT_MODEL, VISION_MODEL, Cell
from tests.integration.cells.named_streams import named_events

HELLO = "Say hello in one short sentence."
# Long enough for a few blocks of the prefix cache.
LONG = "The penstock feeds the turbine with water from the dam. " * 40
Body = dict[str, Any]
_LEDGER_SECONDS = 20


@pytest.fixture
def client(cell: Cell) -> Iterator[httpx.Client]:
    with cell.client() as client:
        yield client


@pytest.fixture
def sdk(cell: Cell) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=cell.openai_url, api_key=cell.key, max_retries=0) as client:
        yield client


def row_of(cell: Cell, client: httpx.Client, request: str) -> Body:
    """The request's only attempt, as soon as the ledger has it."""
    ends = time.monotonic() + _LEDGER_SECONDS
    while True:
        answer = client.get(f"{cell.openai_url}/usage/requests/{request}")
        if answer.status_code == 200:
            (row,) = answer.json()["attempts"]
            assert isinstance(row, dict)
            return row
        assert time.monotonic() < ends, answer.text
        time.sleep(0.2)


def counts(row: Body) -> tuple[int, int, int]:
    return row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]


def of_response(usage: Body) -> tuple[int, int, int]:
    cached = usage["input_tokens_details"]["cached_tokens"]
    return usage["input_tokens"], usage["output_tokens"], cached


def of_message(usage: Body) -> tuple[int, int, int]:
    cached = usage["cache_read_input_tokens"]
    made = usage["cache_creation_input_tokens"]
    return usage["input_tokens"] + cached + made, usage["output_tokens"], cached


def test_responses_are_counted_as_the_engine_counts_them(cell: Cell, client: httpx.Client) -> None:
    url = f"{cell.openai_url}/responses"
    # What is not stored is the engine's own response.
    body = {
        "model": TEXT_MODEL, "input": LONG, "max_output_tokens": 8, "temperature": 0,
        "store": False,
    }  # fmt: skip
    for _ in range(2):
        whole = client.post(url, json=body)
        assert whole.json()["id"] == f"resp_{whole.headers['x-request-id']}"
        row = row_of(cell, client, whole.headers["x-request-id"])
        assert counts(row) == of_response(whole.json()["usage"])
    assert row["cached_tokens"] > 0
    stream = client.post(url, json={**body, "stream": True})
    events = named_events(stream.text)
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    names = [event.name for event in events]
    assert names[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert names[-2:] == ["response.output_item.done", "response.completed"]
    response = events[-1].data["response"]
    assert response["output"][0]["content"] == whole.json()["output"][0]["content"]
    streamed = row_of(cell, client, stream.headers["x-request-id"])
    assert counts(streamed) == of_response(response["usage"]) == counts(row)
    assert 0 < streamed["first_token_ms"] < streamed["duration_ms"]


def test_messages_are_counted_as_the_engine_counts_them(cell: Cell, client: httpx.Client) -> None:
    url = f"{cell.openai_url}/messages"
    said = [{"role": "user", "content": LONG}]
    body = {"model": TEXT_MODEL, "messages": said, "max_tokens": 8, "temperature": 0}
    headers = {"x-api-key": cell.key, "anthropic-version": "2023-06-01"}
    for _ in range(2):
        whole = httpx.post(url, json=body, headers=headers, timeout=300, trust_env=False)
        row = row_of(cell, client, whole.headers["x-request-id"])
        assert counts(row) == of_message(whole.json()["usage"])
    assert row["cached_tokens"] > 0
    stream = client.post(url, json={**body, "stream": True})
    events = named_events(stream.text)
    names = [event.name for event in events]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    streamed = row_of(cell, client, stream.headers["x-request-id"])
    assert counts(streamed) == of_message(events[-2].data["usage"]) == counts(row)


def test_openai_sdk_creates_and_streams_responses(sdk: openai.OpenAI) -> None:
    asked: Any = {"model": TEXT_MODEL, "input": HELLO, "max_output_tokens": 16, "store": False}
    answer = sdk.responses.create(**asked)
    assert answer.output_text
    assert answer.usage is not None
    assert answer.usage.output_tokens <= 16
    with sdk.responses.stream(**asked) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.output_text == text != ""
    with pytest.raises(openai.NotFoundError) as refused:
        sdk.responses.create(model=TEXT_MODEL, input=HELLO, previous_response_id=answer.id)
    assert refused.value.code == "previous_response_not_found"


def test_what_codex_sends_is_taken(cell: Cell, client: httpx.Client) -> None:
    function = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
    space = {"type": "namespace", "name": "files", "description": "Files.", "tools": [function]}
    body = {
        "model": TEXT_MODEL,
        "instructions": "You are an agent.",
        "input": [
            {"type": "message", "role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": HELLO}]},
        ],
        "tools": [function, space, {"type": "web_search"}, {"type": "from_the_future"}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": None,
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "session",
        "client_metadata": {"a": "b"},
        "max_output_tokens": 16,
    }
    stream = client.post(f"{cell.openai_url}/responses", json=body)
    assert stream.status_code == 200, stream.text
    events = named_events(stream.text)
    assert events[-1].name == "response.completed"
    kept = [tool["type"] for tool in events[-1].data["response"]["tools"]]
    assert kept == ["function", "namespace"]


def test_response_has_the_structure_that_was_asked_for(sdk: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    answer = sdk.responses.create(
        model=TEXT_MODEL,
        input="Name a city.",
        max_output_tokens=64,
        temperature=0,
        text={"format": {"type": "json_schema", "name": "place", "schema": schema}},
    )
    assert json.loads(answer.output_text)["city"] in ("Oslo", "Rome")


def test_prompt_that_leaves_little_room_is_answered(cell: Cell, client: httpx.Client) -> None:
    # 2,048 tokens in all; the catalogue's default for the answer, 256, is more than what is left.
    body = {"model": VISION_MODEL, "input": "water " * 1900, "temperature": 0}
    whole = client.post(f"{cell.openai_url}/responses", json=body)
    assert whole.status_code == 200, whole.text
    usage = whole.json()["usage"]
    assert usage["input_tokens"] + 256 > 2048
    assert usage["total_tokens"] <= 2048


def test_client_that_leaves_is_counted_by_the_events_that_passed(
    cell: Cell, client: httpx.Client
) -> None:
    body = {"model": TEXT_MODEL, "input": HELLO, "max_output_tokens": 2000, "stream": True}
    url = f"{cell.openai_url}/responses"
    wanted = {**body, "ignore_eos": True, "store": False}
    with client.stream("POST", url, json=wanted) as stream:
        lines = stream.iter_lines()
        while "output_text.delta" not in next(lines):
            pass
    row = row_of(cell, client, stream.headers["x-request-id"])
    assert row["prompt_tokens"] > 0
    assert 1 <= row["output_tokens"] < 2000
    assert (row["outcome"], row["charge_reason"]) == ("client_left", "estimated")
