"""`/v1/routing/explain` and the commands that tell of routing, against a whole gateway."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import ABSENT, CHAT, PAIR, PRIVATE, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient
from typer.testing import CliRunner, Result

from penstock.cli.commands import app

_EXPLAIN = "/v1/routing/explain"
_SYSTEM = {"role": "system", "content": "The river ran down to the sea past the old mill. " * 40}
_TURN = [_SYSTEM, {"role": "user", "content": "Hello?"}]
_NEXT = [*_TURN, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}]


@pytest.fixture(scope="module")
def pair(cells: CellFactory) -> Iterator[Cell]:
    """Two replicas of one model."""
    with cells.open({"metering.drain_seconds": 0.05}) as cell:
        cell.set_up(CHAT, PAIR, PRIVATE)
        cell.enroll(cell.add_engine().url, PAIR)
        cell.wait_for_replicas(PAIR, 2)
        yield cell


@pytest.fixture
def quiet_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands set the log of their process up; here that is the tests'."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.config.SEARCHED", ())
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], root.level = before


def ask(cell: Cell, session: str = "", path: str = _EXPLAIN, **fields: Any) -> httpx.Response:
    headers = {"x-session-affinity": session} if session else {}
    return cell.post(path, {"model": PAIR, "messages": _TURN} | fields, headers=headers)


def test_explanation_says_where_the_next_turn_goes_and_sends_nothing(pair: Cell) -> None:
    before = ask(pair, "explained").json()
    assert before["last_replica"] == ""
    assert {each["cached_tokens"] for each in before["candidates"]} == {0}
    served = pair.post(
        "/v1/chat/completions",
        {"model": PAIR, "messages": _TURN},
        headers={"x-session-affinity": "explained"},
    )
    replica = served.headers["x-penstock-replica"]
    for _ in range(3):
        answer = ask(pair, "explained", messages=_NEXT).json()
        assert (answer["object"], answer["model"]) == ("routing.explanation", PAIR)
        assert (answer["session"], answer["peers"]) == ("explained", "alone")
        assert (answer["replica"], answer["last_replica"]) == (replica, replica)
        assert answer["reason"]
        best, other = answer["candidates"]
        assert best["replica"] == replica
        assert best["cached_tokens"] > other["cached_tokens"] == 0
        assert best["cost_ratio"] == 1.0 < other["cost_ratio"]
    assert pair.gateway.metric("penstock_sessions_remembered") >= 1


def test_operator_names_the_account(pair: Cell) -> None:
    operator = {"authorization": f"Bearer {pair.operator_key}"}
    body = {"model": PAIR, "messages": _TURN}
    check_openai(pair.post(_EXPLAIN, body, headers=operator), 400, "invalid_request")
    for account, status in ((pair.account, 200), ("f" * 32, 404), ("%00", 404)):
        path = f"{_EXPLAIN}?account={account}"
        assert pair.post(path, body, headers=operator).status_code == status


def test_key_sees_its_own_account_only(pair: Cell) -> None:
    assert ask(pair, path=f"{_EXPLAIN}?account={pair.account}").status_code == 200
    check_openai(ask(pair, path=f"{_EXPLAIN}?account={'f' * 32}"), 403, "forbidden")
    _, _, stranger = pair.add_account("stranger")
    ask(pair, "shared name")
    headers = {"authorization": f"Bearer {stranger}", "x-session-affinity": "explained"}
    answer = pair.post(_EXPLAIN, {"model": PAIR, "messages": _TURN}, headers=headers).json()
    assert answer["last_replica"] == ""
    assert {each["cached_tokens"] for each in answer["candidates"]} == {0}


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"model": "nobody"}, 404, "model_not_found"),
        ({"model": PRIVATE}, 403, "model_not_allowed"),
        ({"model": ABSENT}, 503, "no_replica"),
        ({"messages": "hello"}, 400, "invalid_request"),
    ],
)
def test_what_chat_would_refuse_is_refused_alike(
    pair: Cell, fields: dict[str, Any], status: int, code: str
) -> None:
    is_ours = status == 503
    check_openai(ask(pair, **fields), status, code, retry=is_ours, retry_after=is_ours)


def test_without_a_key_nothing_is_explained(pair: Cell) -> None:
    answer = pair.post(_EXPLAIN, {}, headers={"authorization": "Bearer wrong"})
    check_openai(answer, 401, "unauthenticated")
    assert pair.get(_EXPLAIN).status_code == 405


def test_bodies_that_do_not_come_hold_up_few(pair: Cell) -> None:
    head = (
        f"POST {_EXPLAIN} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {pair.key}\r\n"
        "content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
    )
    with RawClient(pair.gateway.port) as first, RawClient(pair.gateway.port) as second:
        for client in (first, second):
            client.send(head.encode())
        eventually(lambda: ask(pair).status_code == 503)
        check_openai(ask(pair), 503, "overloaded", retry=True, retry_after=True)
    eventually(lambda: ask(pair).status_code == 200)


def penstock(*arguments: str, asked: str = "") -> Result:
    done = CliRunner().invoke(app, list(arguments), input=asked)
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done


@pytest.mark.usefixtures("quiet_log")
def test_command_prints_the_candidates(pair: Cell, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(pair.key + "\n")
    (tmp_path / "request.json").write_text(json.dumps({"model": PAIR, "messages": _TURN}))
    place = ("--url", pair.gateway.url, "--key-file", "key")
    done = penstock("route", "explain", "request.json", "--session", "cli", *place)
    assert done.exit_code == 0, done.output
    assert "session cli" in done.stdout
    assert done.stdout.count("→") == 1
    asked = (tmp_path / "request.json").read_text()
    done = penstock("route", "explain", "-", "--json", *place, asked=asked)
    assert len(json.loads(done.stdout)["candidates"]) == 2
    done = penstock("route", "explain", "-", *place, asked='{"model": "nobody"}')
    assert done.exit_code == 1
    assert "404" in done.stderr


@pytest.mark.usefixtures("quiet_log")
def test_command_says_why_the_cache_broke(pair: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_STORE_DSN", pair.dsn)
    session = {"x-session-affinity": "broken"}
    for text in ("Today is Monday.", "Today is Tuesday."):
        messages = [{"role": "system", "content": text}, *_NEXT[1:]]
        body = {"model": PAIR, "messages": messages}
        answer = pair.post("/v1/chat/completions", body, headers=session)
    request = answer.headers["x-request-id"]
    eventually(lambda: pair.get(f"/v1/usage/requests/{request}").status_code == 200)
    done = penstock("cache", "why", request)
    assert done.exit_code == 0, done.output
    assert "session broken" in done.stdout
    assert "break: The system message" in done.stdout
    story = json.loads(penstock("cache", "why", request, "--json").stdout)
    assert (story["request"], story["cache_break"]) == (request, "system")
    assert story["findings"][0]["kind"] == "break"
    assert penstock("cache", "why", "019a8f3e-5a52-7c1e-9d0b-0c6f2b7f3a11").exit_code == 4


def test_routing_and_signals_are_on_the_metrics_page(pair: Cell) -> None:
    for messages in (_TURN, _NEXT):
        pair.chat({"model": PAIR, "messages": messages, "prompt_cache_key": "counted"})
    for name in ("penstock_route_cached_expected_total", "penstock_index_links"):
        assert pair.gateway.metric(name) > 0
    reasons = {"load", "drain", "lost"}
    samples = pair.gateway.metrics()
    moves = [labels for name, labels in samples if name == "penstock_session_moves_total"]
    assert len(moves) == len(reasons)
    eventually(lambda: pair.gateway.metric("penstock_signals_sent_total") > 0)
    assert pair.gateway.metric("penstock_workers_in_silence") == 0
