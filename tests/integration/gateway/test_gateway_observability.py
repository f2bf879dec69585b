"""What an operator sees: one log line per request, no secret in it, and metrics that add up."""

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_request_id
from tests.integration.cells.gateway_cell import (
    ABSENT,
    CHAT,
    NATIVE,
    PLAIN,
    Cell,
    CellFactory,
    chat_body,
    prompt,
)
from tests.integration.cells.gateway_process import eventually, fetch
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.telemetry.metrics import METRICS

_V1 = "/v1/chat/completions"
_SECRET = "xyzzy-the-prompt"


@pytest.fixture(scope="module")
def watched(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({"ingress.workers": 2, "telemetry.log_level": "debug"}) as cell:
        cell.set_up(CHAT, PLAIN, NATIVE)
        eventually(lambda: cell.gateway.metric("penstock_workers") == 2)
        yield cell


def test_one_line_per_request_with_the_id_of_its_answer(watched: Cell) -> None:
    session = {"x-session-affinity": "ses_9", "x-request-id": "theirs"}
    answer = watched.post(_V1, chat_body(script={"tokens": 6}, stream=True), headers=session)
    line = watched.gateway.request_line(check_request_id(answer.headers))
    assert line["account"] == watched.account
    assert line["key"] == watched.key_id
    assert (line["model"], line["path"], line["status"]) == (CHAT, _V1, 200)
    assert (line["outcome"], line["attempts"], line["stream"]) == ("ok", 1, True)
    assert (line["session"], line["caller_request"]) == ("ses_9", "theirs")
    assert line["output_tokens"] == 6
    assert line["prompt_tokens"] > 0
    assert 0 < line["first_token_ms"] <= line["total_ms"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", line["time"])
    assert line["replica"]


@pytest.mark.parametrize(
    ("path", "body", "code", "status"),
    [
        (_V1, chat_body("nobody"), "model_not_found", 404),
        (_V1, chat_body(ABSENT), "no_replica", 503),
        (_V1, b"{", "invalid_request", 400),
        (_V1, chat_body(script={"status": 500}), "engine_failed", 502),
        (f"run/{CHAT}", {"messages": prompt({"status": 500})}, "engine_failed", 500),
        ("runner", {}, "not_found", 404),
    ],
)
def test_a_refused_request_leaves_its_line_too(
    watched: Cell, path: str, body: object, code: str, status: int
) -> None:
    target = path if path == _V1 else watched.path(path)
    answer = watched.post(target, body)
    line = watched.gateway.request_line(check_request_id(answer.headers))
    assert (line["error"], line["status"], line["outcome"]) == (code, status, "failed")
    assert answer.status_code == status


def test_what_could_not_be_read_leaves_its_line_too(watched: Cell) -> None:
    with RawClient(watched.gateway.port) as client:
        client.send(b"nonsense\r\n\r\n")
        answer = client.read_answer()
    line = watched.gateway.request_line(check_request_id(answer.headers))
    assert (line["status"], line["error"]) == (400, "invalid_request")


def test_no_prompt_no_answer_and_no_key_is_ever_logged(watched: Cell) -> None:
    said = "plugh-the-answer"
    text = f"{_SECRET} é"
    scripts: list[dict[str, Any]] = [
        {"text": said},
        {"text": said, "cut_after": 3},
        {"status": 500},
        {"status": 400, "message": said},
        {"garbage": True},
        {"cut_before_head": True},
    ]
    for script in scripts:
        for stream in (False, True):
            messages = prompt(script, text=text)
            body = {"model": CHAT, "messages": messages, "stream": stream}
            watched.post(_V1, body)
            watched.post(watched.path(f"run/{NATIVE}?key={watched.key}"), {"messages": messages})
    watched.post(_V1, f'{{"model":"{CHAT}","{_SECRET}'.encode())
    watched.post(_V1, {"model": _SECRET + " ", "messages": prompt(text=text)})
    watched.post(_V1, chat_body(), headers={"authorization": f"Bearer {_SECRET}"})
    answer = watched.chat(chat_body())
    watched.gateway.request_line(answer.headers["x-request-id"])
    log = watched.gateway.log_text()
    assert len(log) > 1000
    for secret in (_SECRET, said, watched.key, watched.operator_key, watched.dsn):
        assert secret not in log


def test_every_line_is_json(watched: Cell) -> None:
    watched.chat(chat_body())
    for line in watched.gateway.log_text().splitlines():
        assert isinstance(json.loads(line), dict), line


def test_metrics_of_two_workers_add_up(watched: Cell) -> None:
    labels = (f'account="{watched.account}"', f'model="{PLAIN}"')
    total = 120
    tokens = 5

    def ask() -> None:
        # A new connection each, so that both workers get some.
        for _ in range(total // 12):
            with RawClient(watched.gateway.port) as client:
                body = chat_body(PLAIN, {"tokens": tokens}, stream=True)
                client.send(post_bytes(_V1, body, watched.key))
                assert client.read_answer().status == 200

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def counted(name: str, *more: str) -> float:
        return watched.gateway.metric(name, *labels, *more)

    eventually(lambda: counted("penstock_requests_total", 'outcome="ok"') == total)
    assert counted("penstock_output_tokens_total") == total * tokens
    assert counted("penstock_prompt_tokens_total") > 0
    assert counted("penstock_first_token_seconds_count") == total
    assert counted("penstock_output_token_seconds_count") == total
    assert counted("penstock_first_token_seconds_bucket", 'le="+Inf"') == total
    assert counted("penstock_in_flight") == 0
    assert watched.gateway.metric("penstock_workers") == 2
    # Both read one roster: a replica is not counted twice.
    assert watched.gateway.metric("penstock_ready_replicas", f'model="{PLAIN}"') == 1


def test_errors_are_counted_by_reason(watched: Cell) -> None:
    def errors(reason: str) -> float:
        return watched.gateway.metric("penstock_errors_total", f'reason="{reason}"')

    before = {reason: errors(reason) for reason in ("no_replica", "engine_failed")}
    for _ in range(3):
        watched.chat(chat_body(ABSENT))
    watched.chat(chat_body(script={"status": 500}))
    assert errors("no_replica") == before["no_replica"] + 3
    assert errors("engine_failed") == before["engine_failed"] + 1


def test_what_is_in_flight_is_seen(watched: Cell) -> None:
    with RawClient(watched.gateway.port) as client:
        body = chat_body(PLAIN, {"stall_before_head": 30})
        client.send(post_bytes(_V1, body, watched.key))
        label = f'model="{PLAIN}"'
        eventually(lambda: watched.gateway.metric("penstock_in_flight", label) == 1)
        assert watched.gateway.metric("penstock_client_connections") >= 1
        assert watched.gateway.metric("penstock_engine_connections") >= 1
    eventually(lambda: watched.gateway.metric("penstock_in_flight", label) == 0)


def test_every_declared_metric_is_on_the_page(watched: Cell) -> None:
    watched.chat(chat_body())
    status, page = fetch(watched.gateway.metrics_port, "/metrics")
    assert status == 200
    for name in METRICS:
        # Counters are declared without their suffix.
        assert f"# TYPE {name.removesuffix('_total')}" in page
    assert fetch(watched.gateway.metrics_port, "/else")[0] == 404
    # The numbers are an operator's, not everybody's: they are not on the public port.
    assert watched.get("/metrics").status_code == 404
