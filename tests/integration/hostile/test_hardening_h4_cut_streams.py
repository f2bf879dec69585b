"""Responses and Messages streams that are cut before their engine reports usage are charged.

Their tokens are counted by the events that passed, and marked as estimated. The count is in the
journal before the caller has the event, so no restart of the gateway gives a budget back.
"""

import time
from collections.abc import Iterator

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.leaving_callers import (
    CHATS,
    MESSAGES,
    PRICE,
    QUICK,
    RESPONSES,
    Call,
    Row,
    check_estimated,
    check_sums,
    kill,
    rows_tagged,
)
from tests.integration.cells.limited_accounts import set_limit
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.clock import new_id
from penstock.records.limit import Measure, Period
from penstock.records.price import cost_nanousd
from penstock.records.usage import Usage
from penstock.testing import ScriptedEngine

TOKENS = 300
NAMED = [Call(RESPONSES, is_stream=True), Call(MESSAGES, is_stream=True)]
ALL = [*NAMED, Call(CHATS, is_stream=True)]
DELTAS = {
    RESPONSES: b"event: response.output_text.delta",
    MESSAGES: b"event: content_block_delta",
    CHATS: b'"delta":{"content":"',
}
# Each is worth about three answers.
AMOUNTS = [(Measure.TOKENS, 1000), (Measure.NANOUSD, 3_000_000)]


@pytest.fixture(scope="module")
def cutting(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open(QUICK) as cell:
        yield cell, cell.set_up(CHAT)


def read_deltas(client: RawClient, call: Call, count: int) -> int:
    """Read until so many pieces of the answer are there; how many came."""
    read = b""
    while read.count(DELTAS[call.path]) < count:
        read += client.read_some()
    return read.count(DELTAS[call.path])


def rest_of(client: RawClient) -> bytes:
    try:
        return client.read_to_the_end()
    except ConnectionResetError:
        return b""


def made_for(engine: ScriptedEngine, row: Row) -> int:
    """The tokens that the engine has sent for a row's request."""
    (entry,) = (
        entry
        for entry in engine.state().requests_log
        if entry["headers"]["x-request-id"] == row["request"]
    )
    return int(entry["completion_tokens"])


@pytest.mark.parametrize("call", NAMED, ids=str)
@pytest.mark.parametrize("count", [1, 40])
def test_cut_stream_is_charged_for_the_events_that_passed(
    cutting: tuple[Cell, ScriptedEngine], call: Call, count: int
) -> None:
    cell, engine = cutting
    tag = new_id()
    body = call.body("hello " * 50, {"tokens": TOKENS, "interval": 0.02}, max_tokens=400)
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(call.path, body, cell.key, headers={"x-request-id": tag}))
        client.read_head()
        received = read_deltas(client, call, count)
    (row,) = rows_tagged(cell, tag)
    eventually(lambda: engine.state().running == 0)
    check_estimated(row)
    assert row["outcome"] == "client_left"
    assert received <= row["output_tokens"] <= made_for(engine, row)
    assert row["is_cached_estimated"]
    assert row["first_token_ms"] is not None
    whole = cell.post(call.path, {**body, "stream": False, "max_tokens": 1, "max_output_tokens": 1})
    usage = whole.json()["usage"]
    if call.path == MESSAGES:
        # The stream begins with the engine's own count.
        parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        assert row["prompt_tokens"] == sum(usage[name] or 0 for name in parts)
    else:
        assert 0.5 < row["prompt_tokens"] / usage["input_tokens"] < 2
    check_sums(cell)


@pytest.mark.parametrize("call", NAMED, ids=str)
@pytest.mark.parametrize("fault", ["cut_after", "close_after"])
def test_stream_that_the_engine_cuts_is_charged_for_the_events_that_passed(
    cutting: tuple[Cell, ScriptedEngine], call: Call, fault: str
) -> None:
    cell, _ = cutting
    tag = new_id()
    body = call.body("hello", {"tokens": 40, fault: 20}, max_tokens=400)
    stream = cell.post(call.path, body, headers={"x-request-id": tag})
    (row,) = rows_tagged(cell, tag)
    check_estimated(row)
    assert (row["outcome"], row["error"]) == ("failed", "engine_lost")
    assert row["output_tokens"] == stream.content.count(DELTAS[call.path]) > 0


@pytest.mark.parametrize("call", ALL, ids=str)
@pytest.mark.parametrize(("measure", "amount"), AMOUNTS)
def test_who_hangs_up_before_the_last_words_is_held_to_the_limit_over_a_kill_of_the_gateway(
    cells: CellFactory, call: Call, measure: Measure, amount: int
) -> None:
    with cells.open(QUICK) as cell:
        cell.set_up(CHAT)
        secret = set_limit(cell, measure, Period.MONTH, amount)
        time.sleep(0.5)
        had = 0
        while had < 10 and has_most_of_an_answer(cell, secret, call):
            had += 1
        assert 1 <= had <= 4
        kill(cell)
        cell.gateway.start()
        time.sleep(1)
        more = 0
        while more < 10 and has_most_of_an_answer(cell, secret, call):
            more += 1
        assert more == 0
        check_sums(cell)


def has_most_of_an_answer(cell: Cell, secret: str, call: Call) -> bool:
    """Hang up ten words before the end; False when the gateway refuses for the limit."""
    body = call.body("hello", {"tokens": TOKENS, "interval": 0.001}, max_tokens=400)
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(call.path, body, secret))
        status = client.read_head()[1]
        if status == 200:
            read_deltas(client, call, TOKENS - 10)
    cell.wait_until_idle()
    assert status in {200, 429}
    return status == 200


def test_killed_gateway_bills_between_what_came_and_what_was_sent(cells: CellFactory) -> None:
    with cells.open(QUICK) as cell:
        engine = cell.set_up(CHAT)
        secret = set_limit(cell, Measure.NANOUSD, Period.MONTH, 10**9)
        time.sleep(0.5)
        calls = [call for call in NAMED for _ in range(4)]
        clients = [RawClient(cell.gateway.port) for _ in calls]
        for number, (call, client) in enumerate(zip(calls, clients, strict=True)):
            body = call.body("hello", {"tokens": 2000, "interval": 0.005}, max_tokens=3000)
            tag = {"x-request-id": f"{number}"}
            client.send(post_bytes(call.path, body, secret, headers=tag))
        received = [
            read_deltas(client, call, 5) for call, client in zip(calls, clients, strict=True)
        ]
        kill(cell)
        for number, (call, client) in enumerate(zip(calls, clients, strict=True)):
            received[number] += rest_of(client).count(DELTAS[call.path])
            client.close()
        cell.gateway.start()
        eventually(lambda: engine.state().running == 0)
        for number, came in enumerate(received):
            (row,) = rows_tagged(cell, f"{number}")
            check_estimated(row)
            assert row["outcome"] == "interrupted"
            assert came <= row["output_tokens"] <= made_for(engine, row)
        check_sums(cell)


def test_stream_that_ends_is_charged_what_its_engine_counted(
    cutting: tuple[Cell, ScriptedEngine],
) -> None:
    cell, _ = cutting
    for call in NAMED:
        tag = new_id()
        body = call.body("hello", {"tokens": 20}, max_tokens=400)
        stream = cell.post(call.path, body, headers={"x-request-id": tag})
        assert stream.status_code == 200
        (row,) = rows_tagged(cell, tag)
        assert (row["output_tokens"], row["charge_reason"]) == (20, "")
        usage = Usage(row["prompt_tokens"], 20, row["cached_tokens"])
        assert row["charge_nanousd"] == cost_nanousd(usage, PRICE)
