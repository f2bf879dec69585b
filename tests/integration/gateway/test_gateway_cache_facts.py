"""What caller and ledger are told of the cache: where it went, what was expected, what broke."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_cell import CHAT, NATIVE, PAIR, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.ingress.inference.route_headers import NAMES
from penstock.records.replica import ReplicaId
from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_LONG = "The river ran down to the sea past the old mill. " * 40
_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
Message = dict[str, Any]


@pytest.fixture(scope="module")
def watched(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    settings = {"metering.drain_seconds": 0.05, "ingress.keepalive_seconds": 0.3}
    with cells.open(settings) as cell:
        yield cell, cell.set_up(CHAT, NATIVE)


@pytest.fixture
def cell(watched: tuple[Cell, ScriptedEngine]) -> Cell:
    return watched[0]


def say(session: str, *messages: Message, cell: Cell, **fields: Any) -> httpx.Response:
    body = {"model": CHAT, "messages": list(messages)} | fields
    answer = cell.post(_V1, body, headers={"x-session-affinity": session})
    assert answer.status_code == 200, answer.text
    return answer


def system(text: str = _LONG) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str = "Well.") -> Message:
    return {"role": "assistant", "content": text}


def attempts_of(cell: Cell, request: str, count: int = 1) -> list[dict[str, Any]]:
    """As an account sees them, as soon as so many are there."""
    found: list[dict[str, Any]] = []

    def are_there() -> bool:
        answer = cell.get(f"/v1/usage/requests/{request}")
        found[:] = answer.json()["attempts"] if answer.status_code == 200 else []
        return len(found) >= count

    eventually(are_there)
    return found


@pytest.mark.parametrize("stream", [False, True])
def test_second_turn_expects_the_first_in_the_cache(cell: Cell, stream: bool) -> None:
    name = f"second turn {stream}"
    first = say(name, system(_LONG + name), user("Hello?"), cell=cell, stream=stream)
    assert first.headers["x-penstock-cache-expected"] == "0"
    turn = (system(_LONG + name), user("Hello?"), assistant(), user("And then?"))
    second = say(name, *turn, cell=cell, stream=stream)
    assert second.headers["x-penstock-replica"] == first.headers["x-penstock-replica"]
    expected = int(second.headers["x-penstock-cache-expected"])
    assert expected > 0
    assert "x-penstock-session-moved" not in second.headers
    assert "x-penstock-cache-break" not in second.headers
    (row,) = attempts_of(cell, second.headers["x-request-id"])
    assert row["replica"] == second.headers["x-penstock-replica"]
    assert (row["cached_expected"], row["session_moved"], row["cache_break"]) == (expected, "", "")
    assert row["cached_tokens"] > 0
    assert not row["is_cached_estimated"]


@pytest.mark.parametrize(
    ("part", "turn"),
    [
        ("system", [system("Today is Tuesday. " + _LONG), user("Q"), assistant(), user("R")]),
        ("message 2", [system(), user("Q"), assistant("Edited."), user("R")]),
        ("", [system(), user("Q"), assistant(), user("R"), assistant(), user("S")]),
    ],
)
def test_first_part_that_changed_is_named_on_the_answer_and_in_the_ledger(
    cell: Cell, part: str, turn: list[Message]
) -> None:
    name = f"break at {part or 'nothing'}"
    say(name, system(), user("Q"), assistant(), user("R"), cell=cell)
    answer = say(name, *turn, cell=cell)
    assert answer.headers.get("x-penstock-cache-break", "") == part
    (row,) = attempts_of(cell, answer.headers["x-request-id"])
    assert row["cache_break"] == part


def test_changed_tools_break_everything(cell: Cell) -> None:
    turn = (system(), user("Q"), assistant(), user("R"))
    say("tools", *turn, cell=cell, tools=[_TOOL])
    renamed = {**_TOOL, "function": {**_TOOL["function"], "name": "see"}}  # type: ignore[dict-item]
    answer = say("tools", *turn, cell=cell, tools=[renamed])
    assert answer.headers["x-penstock-cache-break"] == "tools"


def test_native_answers_carry_them_too(cell: Cell) -> None:
    answer = cell.run_model(NATIVE, {"messages": [user("hello")]})
    assert answer.status_code == 200
    assert answer.headers["x-penstock-replica"]
    assert answer.headers["x-penstock-cache-expected"] == "0"


def test_head_that_went_out_with_a_keepalive_names_no_replica(cell: Cell) -> None:
    slow = cell.chat(chat_body(script={"stall_before_head": 1.0}, stream=True))
    assert slow.text.startswith(": keepalive")
    assert not set(NAMES) & set(slow.headers)
    (row,) = attempts_of(cell, slow.headers["x-request-id"])
    assert row["replica"]


def test_refusal_names_no_replica(cell: Cell) -> None:
    refused = cell.chat(chat_body("nobody"))
    assert refused.status_code == 404
    assert not set(NAMES) & set(refused.headers)


def test_cut_stream_is_charged_for_the_cache_that_was_expected(cell: Cell) -> None:
    turn = [system(_LONG + "cut"), user("Hello?")]
    say("cut", *turn, cell=cell)
    script = json.dumps({"tokens": 200, "interval": 0.05})
    turn += [assistant(), user(f"Go on.\n@script {script}")]
    body = {"model": CHAT, "messages": turn, "stream": True, "prompt_cache_key": "cut"}
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, body, cell.key))
        _, status, headers = client.read_head()
        assert status == 200
        client.read_chunk()
    expected = int(headers["x-penstock-cache-expected"])
    assert expected > 0
    (row,) = attempts_of(cell, headers["x-request-id"])
    assert row["outcome"] == "client_left"
    assert row["is_cached_estimated"]
    assert row["cached_tokens"] == min(expected, row["prompt_tokens"])
    uncached, cached, _ = row["calculation"]["lines"]
    assert cached["tokens"] == row["cached_tokens"]
    assert uncached["tokens"] == row["prompt_tokens"] - row["cached_tokens"]
    assert row["calculation"]["calculated_nanousd"] == row["charge_nanousd"]


def test_retried_request_tells_of_the_replica_that_answered(cells: CellFactory) -> None:
    with cells.open({"metering.drain_seconds": 0.05}) as cell:
        cell.set_up(CHAT)
        engines = [cell.add_engine(), cell.add_engine()]
        by_replica = {cell.enroll(engine.url, PAIR).id: engine for engine in engines}
        cell.wait_for_replicas(PAIR, 2)
        turn = [system(), user("Hello?")]
        first = say("s", *turn, cell=cell, model=PAIR).headers["x-penstock-replica"]
        by_replica.pop(ReplicaId(first)).control(cut_before_head=True)
        turn += [assistant(), user("And then?")]
        answer = say("s", *turn, cell=cell, model=PAIR)
        (second,) = by_replica
        assert answer.headers["x-penstock-replica"] == second
        assert answer.headers["x-penstock-cache-expected"] == "0"
        assert answer.headers["x-penstock-session-moved"] == "lost"
        tries = attempts_of(cell, answer.headers["x-request-id"], count=2)
        assert [each["replica"] for each in tries] == [first, second]
        assert [each["session_moved"] for each in tries] == ["", "lost"]
        assert tries[0]["cached_expected"] > 0
        assert tries[1]["cached_expected"] == 0
