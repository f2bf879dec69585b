"""Callers who leave after their request was sent and before its first token pass no limit.

Such a request counts, and is charged, the estimated uncached prompt. What the gateway, the engine
or a timeout broke before the first token costs nothing.
"""

import time
from collections.abc import Iterator

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.leaving_callers import (
    CHATS,
    MESSAGES,
    QUICK,
    RESPONSES,
    Call,
    Row,
    check_estimated,
    check_sums,
    hang_up_before_first_token,
    kill,
    rows_tagged,
)
from tests.integration.cells.limited_accounts import set_limit
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.clock import new_id
from penstock.records.limit import Measure, Period
from penstock.testing import ScriptedEngine

CALLS = [
    Call(CHATS, is_stream=True),
    Call(CHATS, is_stream=False),
    Call(RESPONSES, is_stream=True),
    Call(RESPONSES, is_stream=False),
    Call(MESSAGES, is_stream=True),
    Call(MESSAGES, is_stream=False),
]
# By its bytes a prompt is estimated at 15,000 tokens, or $0.009.
WORDS = "measure twice, cut once, and write it down. " * 1023
AMOUNTS = [(Measure.TOKENS, 40_000), (Measure.NANOUSD, 24_000_000)]


@pytest.fixture(scope="module")
def leaving(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({**QUICK, "engine.first_byte_seconds": 1.0}) as cell:
        yield cell, cell.set_up(CHAT)


@pytest.fixture
def cell(leaving: tuple[Cell, ScriptedEngine]) -> Cell:
    return leaving[0]


@pytest.fixture
def engine(leaving: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return leaving[1]


def limited(cell: Cell, measure: Measure, amount: int) -> str:
    """The secret of a new account with this limit, once the gateway knows of it."""
    secret = set_limit(cell, measure, Period.MONTH, amount)
    time.sleep(0.5)
    return secret


def prompts(*, are_same: bool) -> Iterator[str]:
    same = new_id()
    while True:
        yield f"{same if are_same else new_id()} {WORDS}"


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize(("measure", "amount"), AMOUNTS)
def test_limit_counts_prompts_that_are_left_before_the_first_token(
    cell: Cell, engine: ScriptedEngine, call: Call, measure: Measure, amount: int
) -> None:
    secret, texts = limited(cell, measure, amount), prompts(are_same=False)
    sent = 0
    while sent < 10 and hang_up_before_first_token(cell, engine, call, secret, next(texts)):
        sent += 1
    assert sent == 2


@pytest.mark.parametrize(("measure", "amount"), AMOUNTS)
def test_prompt_that_was_never_answered_is_not_taken_for_a_cached_one(
    cell: Cell, engine: ScriptedEngine, measure: Measure, amount: int
) -> None:
    secret, texts = limited(cell, measure, amount), prompts(are_same=True)
    sent = 0
    while sent < 10 and hang_up_before_first_token(cell, engine, CALLS[0], secret, next(texts)):
        sent += 1
    assert sent == 2


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_row_is_marked_and_charged_for_the_estimated_prompt(
    cell: Cell, engine: ScriptedEngine, call: Call
) -> None:
    tag, text = new_id(), next(prompts(are_same=False))
    assert hang_up_before_first_token(cell, engine, call, cell.key, text, tag)
    (row,) = rows_tagged(cell, tag)
    check_estimated(row)
    assert row["outcome"] == "client_left"
    assert row["prompt_tokens"] == pytest.approx(len(text) / 3, rel=0.02)
    assert (row["output_tokens"], row["cached_tokens"], row["first_token_ms"]) == (0, None, None)
    check_sums(cell)


def test_what_is_cached_is_taken_off(cell: Cell, engine: ScriptedEngine) -> None:
    call, text = CALLS[0], next(prompts(are_same=False))
    body = call.body(text, {"tokens": 3}, max_tokens=16)
    asked = [{"role": "user", "content": body["messages"][0]["content"]}]
    assert cell.post(CHATS, {**body, "stream": False, "messages": asked}).status_code == 200
    turn = [*asked, {"role": "assistant", "content": "yes"}]
    said = "and now?\n@script " + '{"stall_before_head": 60}'
    turn.append({"role": "user", "content": said})
    tag, before = new_id(), engine.state().requests
    with RawClient(cell.gateway.port) as client:
        body = {**body, "messages": turn}
        client.send(post_bytes(CHATS, body, cell.key, headers={"x-request-id": tag}))
        eventually(lambda: engine.state().requests == before + 1)
    (row,) = rows_tagged(cell, tag)
    check_estimated(row)
    assert row["cached_expected"] > 5000
    assert row["prompt_tokens"] < 500


def broken(cell: Cell, call: Call, script: Row) -> Row:
    """The row of a request that was not ended by its caller."""
    tag = new_id()
    body = call.body(next(prompts(are_same=False)), script, max_tokens=16)
    answer = cell.post(call.path, body, headers={"x-request-id": tag})
    assert answer.status_code >= 500
    (row,) = rows_tagged(cell, tag)
    return row


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("script", [{"status": 500}, {"cut_before_head": True}], ids=str)
def test_what_the_engine_broke_costs_nothing(cell: Cell, call: Call, script: Row) -> None:
    row = broken(cell, call, script)
    assert (row["outcome"], row["charge_nanousd"], row["prompt_tokens"]) == ("failed", 0, None)
    cell.wait_until_idle()


def test_what_a_timeout_ended_costs_nothing(cell: Cell) -> None:
    row = broken(cell, CALLS[0], {"stall_before_head": 60})
    assert (row["error"], row["charge_nanousd"]) == ("deadline_passed", 0)
    assert row["prompt_tokens"] is None
    cell.wait_until_idle()


@pytest.mark.parametrize("is_killed", [True, False], ids=["SIGKILL", "SIGTERM"])
def test_what_the_gateway_broke_costs_nothing(cells: CellFactory, is_killed: bool) -> None:
    with cells.open({**QUICK, "ingress.drain_seconds": 1}) as cell:
        engine = cell.set_up(CHAT)
        clients = [RawClient(cell.gateway.port) for _ in CALLS]
        for call, client in zip(CALLS, clients, strict=True):
            body = call.body(WORDS, {"stall_before_head": 60}, max_tokens=16)
            tag = {"x-request-id": str(call)}
            client.send(post_bytes(call.path, body, cell.key, headers=tag))
        eventually(lambda: engine.state().requests == len(CALLS))
        if is_killed:
            kill(cell)
        else:
            cell.gateway.terminate()
            cell.gateway.wait()
        cell.gateway.start()
        for call, client in zip(CALLS, clients, strict=True):
            client.close()
            (row,) = rows_tagged(cell, str(call))
            assert (row["outcome"], row["charge_nanousd"]) == ("interrupted", 0)
            assert row["prompt_tokens"] is None
        check_sums(cell)


@pytest.mark.parametrize(("measure", "amount"), AMOUNTS)
def test_limit_stays_used_after_a_kill_of_the_gateway(
    cells: CellFactory, measure: Measure, amount: int
) -> None:
    with cells.open(QUICK) as cell:
        engine = cell.set_up(CHAT)
        secret, texts = limited(cell, measure, amount), prompts(are_same=False)
        for _ in range(2):
            assert hang_up_before_first_token(cell, engine, CALLS[0], secret, next(texts))
        kill(cell)
        cell.gateway.start()
        time.sleep(0.5)
        assert not hang_up_before_first_token(cell, engine, CALLS[0], secret, next(texts))
        check_sums(cell)


def test_request_that_its_caller_left_before_it_was_sent_costs_nothing(cells: CellFactory) -> None:
    with cells.open(QUICK) as cell:
        engine = cell.set_up(CHAT, slots_live=1)
        secret = limited(cell, Measure.TOKENS, 40_000)
        slow = CALLS[0].body("hello", {"tokens": 1000, "interval": 0.05}, max_tokens=2000)
        with RawClient(cell.gateway.port) as holder:
            holder.send(post_bytes(CHATS, slow, cell.key))
            holder.read_until(b"data: ")
            for _ in range(5):
                body = CALLS[0].body(WORDS, {}, max_tokens=16)
                with RawClient(cell.gateway.port) as client:
                    client.send(post_bytes(CHATS, body, secret))
                    eventually(lambda: cell.gateway.metric("penstock_waiting") == 1)
                eventually(lambda: cell.gateway.metric("penstock_waiting") == 0)
        cell.wait_until_idle()
        assert engine.state().requests == 1
        body = CALLS[1].body(WORDS, {}, max_tokens=16)
        headers = {"authorization": f"Bearer {secret}"}
        assert cell.post(CHATS, body, headers=headers).status_code == 200
