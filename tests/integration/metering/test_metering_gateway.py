"""A whole gateway and its ledger: rows equal what the engine counted, whatever way was asked."""

import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import (
    CHAT,
    NATIVE,
    Cell,
    CellFactory,
    chat_body,
    events_of,
    prompt,
)
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.cells.metering_lines import attempts, names_in
from tests.integration.cells.raw_client import RawClient, is_refused, post_bytes

from penstock.metering import usd
from penstock.store import Store
from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_QUICK = {"metering.drain_seconds": 0.05, "metering.adopt_seconds": 0.2}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def metered(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({**_QUICK, "metering.workflows_max": 6}) as cell:
        yield cell, cell.set_up(CHAT, NATIVE)


@pytest.fixture
def cell(metered: tuple[Cell, ScriptedEngine]) -> Cell:
    return metered[0]


@pytest.fixture
def engine(metered: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return metered[1]


def counts(row: Row) -> tuple[int, int, int]:
    return row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]


def counted(usage: Row) -> tuple[int, int, int]:
    details = usage["prompt_tokens_details"] or {}
    return usage["prompt_tokens"], usage["completion_tokens"], details["cached_tokens"]


@pytest.mark.parametrize("n", [1, 2])
def test_rows_equal_what_the_engine_counted_for_stream_and_whole_alike(cell: Cell, n: int) -> None:
    for turn in range(2):
        whole = cell.chat(chat_body(n=n))
        (row,) = rows_of(cell, whole.headers["x-request-id"])
        assert counts(row) == counted(whole.json()["usage"])
        assert whole.headers["x-penstock-cost-usd"] == usd(row["charge_nanousd"])
        assert row["first_token_ms"] is None
        body = chat_body(n=n, stream=True, stream_options={"include_usage": True})
        stream = cell.post(_V1, body, headers={"x-penstock-cost": "1"})
        (streamed,) = rows_of(cell, stream.headers["x-request-id"])
        usage = json.loads(events_of(stream.text)[-2])["usage"]
        assert counts(streamed) == counted(usage)
        assert f": cost-usd {usd(streamed['charge_nanousd'])}\n" in stream.text
        assert streamed["first_token_ms"] is not None
        if turn:
            assert streamed["charge_nanousd"] == row["charge_nanousd"]
            assert streamed["charge_nanousd"] > 0


def test_native_answers_are_counted_like_any_other(cell: Cell) -> None:
    whole = cell.run_model(NATIVE, {"messages": prompt()})
    stream = cell.run_model(NATIVE, {"messages": prompt(), "stream": True})
    rows = [rows_of(cell, answer.headers["x-request-id"])[0] for answer in (whole, stream)]
    assert rows[0]["output_tokens"] == whole.json()["result"]["usage"]["completion_tokens"]
    assert rows[0]["output_tokens"] == rows[1]["output_tokens"]
    assert [row["is_stream"] for row in rows] == [False, True]
    assert {row["model"] for row in rows} == {NATIVE}


def test_row_says_whose_it_is_and_what_the_caller_said_of_it(cell: Cell) -> None:
    body = chat_body(metadata={"workflow": "in-body"}, prompt_cache_key="session-1")
    body["messages"] = [{"role": "system", "content": "日本語の指示。" * 500}, *body["messages"]]
    places: list[dict[str, str]] = [
        {},
        {"cf-aig-metadata": '{"workflow":"theirs","user":5}'},
        {"cf-aig-metadata": '{"workflow":"theirs"}', "x-penstock-workflow": "ours"},
    ]
    rows = []
    for place in places:
        headers = {**place, "x-stainless-retry-count": "2", "x-request-id": "caller's"}
        answer = cell.post(_V1, body, headers=headers)
        assert answer.status_code == 200
        rows += rows_of(cell, answer.headers["x-request-id"])
    assert [row["workflow"] for row in rows] == ["in-body", "theirs", "ours"]
    for row in rows:
        assert (row["account"], row["key"]) == (cell.account, cell.key_id)
        assert (row["client_retry"], row["caller_request"]) == (2, "caller's")
        assert (row["session"], row["tier"], row["outcome"]) == ("session-1", "now", "ok")
    assert len({row["prompt_family"] for row in rows}) == 1
    assert len(rows[0]["prompt_family"]) == 16


@pytest.mark.parametrize(
    "key", ["a\tb", "a\nb\r", "nul\0", "back\\slash\\N", "🌊", "\\.", "x" * 5000, "é" * 256]
)
def test_no_session_name_poisons_the_drain(cell: Cell, key: str) -> None:
    answer = cell.chat(chat_body(prompt_cache_key=key))
    (row,) = rows_of(cell, answer.headers["x-request-id"])
    assert row["session"] == "".join(c for c in key[:256] if c.isprintable())
    assert not (cell.journal / "unwritable.tsv").exists()


def test_lone_surrogate_is_refused_before_it_goes_anywhere(cell: Cell) -> None:
    body = json.dumps(chat_body(prompt_cache_key="\ud800")).encode()
    check_openai(cell.post(_V1, body), 400, "invalid_request")


def test_names_beyond_the_cap_are_other(cell: Cell) -> None:
    labels = []
    for number in range(9):
        answer = cell.post(_V1, chat_body(), headers={"x-penstock-workflow": f"many-{number}"})
        (row,) = rows_of(cell, answer.headers["x-request-id"])
        labels.append(row["workflow"])
    assert "other" in labels
    assert len(set(labels)) <= 7


def test_cost_cap_refuses_or_shortens_on_both_surfaces(cell: Cell, engine: ScriptedEngine) -> None:
    script = {"tokens": 3000}
    cap = {"x-penstock-max-cost-usd": "0.001"}
    for path in (_V1, cell.path(f"run/{CHAT}"), cell.path(f"run/{NATIVE}")):
        answer = cell.post(path, chat_body(script=script), headers=cap)
        assert answer.status_code == 200, answer.text
        (row,) = rows_of(cell, answer.headers["x-request-id"])
        assert 0 < row["charge_nanousd"] <= 10**6
        assert row["output_tokens"] < 334
    before = engine.state().requests
    body = chat_body(max_tokens=3000)
    message = check_openai(cell.post(_V1, body, headers=cap), 400, "max_cost_exceeded")
    assert "$0.001000000" in message
    check_envelope(cell.post(cell.path(f"run/{CHAT}"), body, headers=cap), 400, 9037)
    for wrong in ("", "x", "-1", "nan", "inf", "1e9", "1,5"):
        wrong_cap = {"x-penstock-max-cost-usd": wrong}
        check_openai(cell.post(_V1, chat_body(), headers=wrong_cap), 400, "invalid_request")
    assert engine.state().requests == before


def test_retried_request_has_two_rows_and_one_charge(cell: Cell, engine: ScriptedEngine) -> None:
    second = cell.add_engine()
    replica = cell.enroll(second.url, CHAT)
    cell.wait_for_replicas(CHAT, 2)
    try:
        engine.control(cut_before_head=True)
        for _ in range(20):
            answer = cell.chat(chat_body())
            assert answer.status_code == 200
            line = cell.gateway.request_line(answer.headers["x-request-id"])
            if line["attempts"] == 2:
                break
            cell.wait_until_idle()
        rows = rows_of(cell, answer.headers["x-request-id"], 2)
    finally:
        engine.control()
        cell.withdraw(replica)
        cell.wait_for_replicas(CHAT, 1)
        cell.wait_until_idle()
    assert [(row["attempt"], row["outcome"]) for row in rows] == [(1, "failed"), (2, "ok")]
    assert rows[0]["charge_nanousd"] == 0
    assert rows[0]["prompt_tokens"] is None
    assert answer.headers["x-penstock-cost-usd"] == usd(rows[1]["charge_nanousd"])


def test_client_that_leaves_pays_for_what_was_made_and_no_more(
    cell: Cell, engine: ScriptedEngine
) -> None:
    body = chat_body(script={"tokens": 1000, "interval": 0.02}, stream=True)
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, body, cell.key))
        _, _, headers = client.read_head()
        received = sum(_tokens_in(client.read_chunk()) for _ in range(10))
    (row,) = rows_of(cell, headers["x-request-id"])
    (sent,) = (e for e in engine.state().requests_log if headers["x-request-id"] in e["id"])
    assert row["outcome"] == "client_left"
    assert 0 < received <= row["output_tokens"] <= sent["completion_tokens"]
    assert row["charge_nanousd"] > 0


def test_whole_answer_that_was_cut_is_unknown_and_free(cell: Cell) -> None:
    body = chat_body(script={"cut_after": 20})
    answer = cell.chat(body)
    assert answer.status_code == 502
    (row,) = rows_of(cell, answer.headers["x-request-id"])
    assert (row["outcome"], row["charge_nanousd"], row["prompt_tokens"]) == ("failed", 0, None)


def test_refusals_are_counted_and_have_no_rows(cell: Cell) -> None:
    refused = cell.chat({"model": CHAT, "messages": []})
    cell.client.post(cell.gateway.url + _V1, content=b"{}")

    async def read(store: Store) -> dict[tuple[str, str, str], int]:
        async with store.transaction() as transaction:
            rows = await transaction.fetch("select account, key, reason, count from usage_refusals")
        return {row[:3]: row[3] for row in rows}

    wanted = {(cell.account, cell.key_id, "invalid_request"), ("", "", "unauthenticated")}
    eventually(lambda: wanted <= set(cell.run(read)))

    async def ledger(store: Store) -> list[Row]:
        return await attempts(store)

    requests = {row["request"] for row in cell.run(ledger)}
    assert refused.headers["x-request-id"] not in requests


def test_numbers_of_the_ledger_are_on_the_metrics_page(cell: Cell) -> None:
    assert cell.chat(chat_body()).status_code == 200
    eventually(lambda: cell.gateway.metric("penstock_ledger_rows_total") > 0)
    assert cell.gateway.metric("penstock_journal_bytes") > 0
    assert cell.gateway.metric("penstock_charged_usd_total") > 0
    assert cell.gateway.metric("penstock_ledger_unwritable_total") == 0
    assert cell.gateway.metric("penstock_drain_failures_total") == 0


def test_gateway_with_as_many_open_as_it_may_refuses_more(cells: CellFactory) -> None:
    with cells.open({**_QUICK, "metering.open_max": 1}) as cell:
        engine = cell.set_up(CHAT)
        slow = chat_body(script={"tokens": 1000, "interval": 0.05}, stream=True)
        with RawClient(cell.gateway.port) as client:
            client.send(post_bytes(_V1, slow, cell.key))
            client.read_until(b"data: ")
            refused = cell.chat(chat_body())
            check_openai(refused, 503, "journal_full", retry=True, retry_after=True)
            assert engine.state().requests == 1
        eventually(lambda: cell.chat(chat_body()).status_code == 200)


def test_stopped_gateway_leaves_an_empty_journal_and_every_row(cells: CellFactory) -> None:
    with cells.open({**_QUICK, "metering.drain_seconds": 30, "ingress.drain_seconds": 1}) as cell:
        cell.set_up(CHAT)
        ids = [cell.chat(chat_body()).headers["x-request-id"] for _ in range(5)]
        slow = chat_body(script={"tokens": 1000, "interval": 0.02}, stream=True)
        with RawClient(cell.gateway.port) as client:
            client.send(post_bytes(_V1, slow, cell.key))
            _, _, headers = client.read_head()
            client.read_until(b"data: ")
            assert len(names_in(cell.journal)) == 3
            cell.gateway.terminate()
            client.read_to_the_end()
        assert cell.gateway.wait() == 0
        assert names_in(cell.journal) == ["cell"]
        for request_id in ids:
            assert rows_of(cell, request_id)[0]["outcome"] == "ok"
        (row,) = rows_of(cell, headers["x-request-id"])
        assert (row["outcome"], row["error"]) == ("interrupted", "aborted")
        assert row["output_tokens"] >= 1


@pytest.mark.parametrize("workers", [1, 2])
def test_gateway_that_is_told_twice_to_stop_bills_what_runs_once(
    cells: CellFactory, workers: int
) -> None:
    """By a second Ctrl-C: nobody waits for what runs, and yet each request comes to its end."""
    settings = {**_QUICK, "ingress.drain_seconds": 60, "ingress.workers": workers}
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        slow = chat_body(script={"tokens": 1000, "interval": 0.02}, stream=True)
        with RawClient(cell.gateway.port) as client:
            client.send(post_bytes(_V1, slow, cell.key))
            request_id = client.read_head()[2]["x-request-id"]
            client.read_until(b"data: ")
            pids = cell.gateway.worker_pids()
            cell.gateway.terminate()
            eventually(lambda: is_refused(cell.gateway.port))
            for pid in pids:
                os.kill(pid, signal.SIGINT)
            rest = client.read_to_the_end()
        cell.gateway.wait(5)
        assert b'"code":"aborted"' in rest
        assert cell.gateway.request_line(request_id)["error"] == "aborted"
        cell.gateway.start()
        (row,) = rows_of(cell, request_id)
        assert (row["outcome"], row["error"]) == ("interrupted", "aborted")
        assert row["output_tokens"] >= _tokens_in(rest)


def test_killed_gateway_bills_between_what_came_and_what_was_sent(cells: CellFactory) -> None:
    with cells.open(_QUICK) as cell:
        engine = cell.set_up(CHAT)
        received: dict[str, int] = {}
        clients = [RawClient(cell.gateway.port) for _ in range(8)]
        slow = chat_body(script={"tokens": 2000, "interval": 0.005}, stream=True)
        for client in clients:
            client.send(post_bytes(_V1, slow, cell.key))
        heads = [client.read_head()[2]["x-request-id"] for client in clients]
        for client in clients:
            client.read_until(b"data: ")
        done = cell.chat(chat_body()).headers["x-request-id"]
        for pid in {*cell.gateway.worker_pids(), cell.gateway.pid}:
            os.kill(pid, signal.SIGKILL)
        cell.gateway.wait()
        for request_id, client in zip(heads, clients, strict=True):
            received[request_id] = _tokens_in(_rest_of(client))
            client.close()
        assert len(names_in(cell.journal)) == 3
        cell.gateway.start()
        eventually(lambda: engine.state().running == 0)
        sent = {entry["id"]: entry["completion_tokens"] for entry in engine.state().requests_log}
        for request_id in heads:
            (row,) = rows_of(cell, request_id)
            (made,) = (tokens for id_, tokens in sent.items() if request_id in id_)
            assert row["outcome"] == "interrupted"
            assert received[request_id] <= row["output_tokens"] <= made
            assert row["charge_nanousd"] > 0
        assert rows_of(cell, done)[0]["outcome"] == "ok"
        eventually(lambda: len(names_in(cell.journal)) == 3)
        assert cell.gateway.metric("penstock_journals_adopted_total") == 1


def _tokens_in(events: bytes) -> int:
    """The first event of a stream says who speaks, and nothing."""
    return len(re.findall(rb'"content":"[^"]', events))


def _rest_of(client: RawClient) -> bytes:
    try:
        return client.read_to_the_end()
    except ConnectionResetError:
        return b""
