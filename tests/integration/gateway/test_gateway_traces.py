"""A collector gets one tree for each request, of names, counts and times, and no content."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_cell import (
    ABSENT,
    CHAT,
    PAIR,
    Cell,
    CellFactory,
    chat_body,
    new_body,
    prompt,
)
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes
from tests.integration.cells.trace_collector import TraceCollector
from tests.integration.contracts.contract_cell import REFRESH, contract, in_force
from tests.integration.contracts.tool_requests import tool_request
from tests.unit.telemetry.callers_trace import GOOD, SPAN, TRACE

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_SECRET = "xyzzy-the-prompt"
_SAID = "plugh-the-answer"
Traced = tuple[Cell, TraceCollector, ScriptedEngine, ScriptedEngine]


@pytest.fixture(scope="module")
def traced(cells: CellFactory) -> Iterator[Traced]:
    with TraceCollector() as collector:
        settings = {
            **REFRESH,
            "telemetry.traces_url": collector.url,
            "telemetry.traces_share": 1.0,
            "ingress.cors_origins": ["*"],
        }
        with cells.open(settings) as cell:
            first = cell.set_up(CHAT, PAIR)
            second = cell.add_engine()
            cell.enroll(second.url, PAIR)
            cell.wait_for_replicas(PAIR, 2)
            yield cell, collector, first, second


@pytest.fixture
def cell(traced: Traced) -> Cell:
    return traced[0]


@pytest.fixture
def collector(traced: Traced) -> TraceCollector:
    return traced[1]


def ids_of(answer: httpx.Response) -> tuple[str, str]:
    return answer.headers["x-request-id"], answer.headers["x-penstock-trace"]


def test_an_answer_is_a_tree_of_two_spans(cell: Cell, collector: TraceCollector) -> None:
    labels = {"x-session-id": "ses_9", "x-penstock-workflow": "nightly"}
    body = chat_body(script={"tokens": 6}, max_tokens=50)
    answer = cell.post(_V1, body, headers=labels)
    request_id, trace_id = ids_of(answer)
    root, [child] = collector.tree_of(request_id)
    assert trace_id == root.trace_id == request_id.replace("-", "")
    assert "x-penstock-trace" in answer.headers["access-control-expose-headers"]
    assert cell.gateway.request_line(request_id)["trace"] == trace_id
    assert (root.service, root.name, root.kind) == ("penstock-gateway", f"POST {_V1}", "SERVER")
    facts = root.attributes
    assert facts["http.response.status_code"] == 200
    assert facts["penstock.account"] == cell.account
    assert facts["penstock.cost_usd"] == pytest.approx(
        float(answer.headers["x-penstock-cost-usd"]), abs=1e-9
    )
    assert (child.name, child.kind) == (f"chat {CHAT}", "CLIENT")
    facts = child.attributes
    usage = answer.json()["usage"]
    assert facts["gen_ai.provider.name"] == "vllm"
    assert facts["gen_ai.request.stream"] is False
    assert facts["gen_ai.request.max_tokens"] == 50
    assert facts["gen_ai.conversation.id"] == "ses_9"
    assert facts["gen_ai.workflow.name"] == "nightly"
    assert facts["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    assert facts["gen_ai.usage.output_tokens"] == 6
    assert facts["gen_ai.response.model"] == "scripted"
    assert facts["server.address"] == "127.0.0.1"
    assert facts["penstock.replica"] == answer.headers["x-penstock-replica"]
    assert [root.is_error, child.is_error] == [False, False]


def test_a_stream_has_the_time_of_its_first_chunk(cell: Cell, collector: TraceCollector) -> None:
    script = {"tokens": 6, "stall_before_first": 0.3}
    answer = cell.chat(chat_body(script=script, stream=True))
    root, [child] = collector.tree_of(answer.headers["x-request-id"])
    assert child.attributes["gen_ai.request.stream"] is True
    first = child.attributes["gen_ai.response.time_to_first_chunk"]
    assert 0.3 <= first <= (child.end_nanos - child.start_nanos) / 1e9
    assert child.attributes["gen_ai.usage.output_tokens"] == 6
    assert root.attributes["penstock.outcome"] == "ok"


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        ({}, ["stop"]),
        ({"max_tokens": 3}, ["length"]),
        ({"n": 2}, ["stop", "stop"]),
        ({"stream": True}, ["stop"]),
        ({"stream": True, "n": 2}, ["stop", "stop"]),
        # No chunk of such a stream is searched for it.
        ({"stream": True, "stream_options": {"include_usage": True}}, None),
    ],
)
def test_an_attempt_has_why_the_model_stopped(
    cell: Cell, collector: TraceCollector, facts: dict[str, Any], reasons: list[str] | None
) -> None:
    answer = cell.chat(chat_body(script={"tokens": 6}, **facts))
    _, [child] = collector.tree_of(answer.headers["x-request-id"])
    assert child.attributes.get("gen_ai.response.finish_reasons") == reasons


def test_messages_have_their_own_reason(cell: Cell, collector: TraceCollector) -> None:
    for stream in (False, True):
        body = chat_body(script={"tokens": 6}, max_tokens=50, stream=stream)
        answer = cell.post("/v1/messages", body)
        assert answer.status_code == 200, answer.text
        _, [child] = collector.tree_of(answer.headers["x-request-id"])
        assert child.attributes["gen_ai.response.finish_reasons"] == ["end_turn"]


def test_each_attempt_has_a_span_and_the_engine_learns_of_its_own(traced: Traced) -> None:
    cell, collector, first, second = traced
    first.control(status=503, times=16)
    try:
        answers = [cell.chat(new_body(PAIR)) for _ in range(16)]
    finally:
        first.control()
    lines = [cell.gateway.request_line(each.headers["x-request-id"]) for each in answers]
    retried = next(line["request"] for line in lines if line["attempts"] == 2)
    root, children = collector.tree_of(retried)
    assert [child.is_error for child in children] == [True, False]
    assert children[0].attributes["error.type"] == "out_of_capacity"
    assert children[0].attributes["server.port"] == first.port
    assert children[1].attributes["server.port"] == second.port
    assert "error.type" not in root.attributes
    told = [
        {each["headers"].get("traceparent") for each in engine.state().requests_log}
        for engine in (first, second)
    ]
    for child, seen in zip(children, told, strict=True):
        assert f"00-{root.trace_id}-{child.span_id}-01" in seen
    cell.wait_until_idle()


def test_a_callers_trace_goes_on(traced: Traced) -> None:
    cell, collector, first, _ = traced
    answer = cell.post(_V1, chat_body(), headers={"traceparent": GOOD.decode()})
    request_id, trace_id = ids_of(answer)
    root, [child] = collector.tree_of(request_id)
    assert trace_id == root.trace_id == TRACE
    assert root.parent_id == SPAN
    assert cell.gateway.request_line(request_id)["trace"] == TRACE
    last = first.state().last_request
    assert last is not None
    assert last["headers"]["traceparent"] == f"00-{TRACE}-{child.span_id}-01"
    assert "tracestate" not in last["headers"]


@pytest.mark.parametrize("bad", ["00-zz", GOOD.decode() + "\t", GOOD.decode() * 1000])
def test_a_bad_traceparent_is_ignored(cell: Cell, collector: TraceCollector, bad: str) -> None:
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(), cell.key, headers={"traceparent": bad + "x"}))
        answer = client.read_answer()
    assert answer.status == 200
    request_id = answer.headers["x-request-id"]
    root, _ = collector.tree_of(request_id)
    assert root.trace_id == request_id.replace("-", "")
    assert root.parent_id == ""


def test_a_client_that_left(cell: Cell, collector: TraceCollector) -> None:
    with RawClient(cell.gateway.port) as client:
        body = chat_body(script={"tokens": 1000, "interval": 0.02}, stream=True)
        client.send(post_bytes(_V1, body, cell.key))
        _, _, headers = client.read_head()
        client.read_until(b"data: ")
    root, [child] = collector.tree_of(headers["x-request-id"])
    assert root.attributes["penstock.outcome"] == "client_left"
    assert child.attributes["penstock.outcome"] == "client_left"
    assert "gen_ai.response.finish_reasons" not in child.attributes
    assert [root.is_error, child.is_error] == [False, False]


@pytest.mark.parametrize(
    ("body", "code", "status", "is_error"),
    [
        (chat_body("nobody"), "model_not_found", 404, False),
        (b"{", "invalid_request", 400, False),
        (chat_body(ABSENT), "no_replica", 503, True),
    ],
)
def test_a_refused_request_is_a_span_alone(
    cell: Cell, collector: TraceCollector, body: object, code: str, status: int, is_error: bool
) -> None:
    answer = cell.post(_V1, body)
    root, children = collector.tree_of(answer.headers["x-request-id"])
    assert children == []
    assert root.attributes["penstock.account"] == cell.account
    assert root.attributes["error.type"] == code
    assert root.attributes["http.response.status_code"] == status
    assert root.is_error is is_error


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_contract_withheld(cell: Cell, collector: TraceCollector, stream: bool) -> None:
    in_force(cell, contract("only", 'tools = { default = "deny", offered = "leave" }'))
    script = {"calls": [["bash", "{}"]]}
    path, body = tool_request("chat", cell.account, prompt(script), ("bash",), stream=stream)
    answer = cell.post(path, body, headers={"x-penstock-workflow": "only"})
    assert "tool_call_forbidden" in answer.text
    root, [child] = collector.tree_of(answer.headers["x-request-id"])
    assert root.attributes["error.type"] == "tool_call_forbidden"
    assert root.attributes["penstock.contract"].startswith("only@")
    assert child.attributes["error.type"] == "tool_call_forbidden"
    denied = [
        each for each in root.events if each.attributes["penstock.decision.verdict"] == "deny"
    ]
    [event] = denied
    assert event.name == "penstock.decision"
    assert event.attributes["penstock.decision.kind"] == "tool_call"
    assert event.attributes["penstock.decision.subjects"] == ["bash"]
    assert root.start_nanos <= event.at_nanos <= root.end_nanos


def test_paths_are_named_without_ids_and_query(cell: Cell, collector: TraceCollector) -> None:
    route = "/client/v4/accounts/{account_id}/ai"
    for path, name in (
        (f"run/{CHAT}?key={_SECRET}", f"{route}/run/{{model_name}}"),
        ("v1/chat/completions", f"{route}/v1/chat/completions"),
    ):
        answer = cell.post(cell.path(path), chat_body())
        assert answer.status_code == 200, answer.text
        root, _ = collector.tree_of(answer.headers["x-request-id"])
        assert root.attributes["http.route"] == name


def test_no_prompt_no_answer_and_no_key_is_ever_sent(cell: Cell, collector: TraceCollector) -> None:
    scripts: list[dict[str, Any]] = [
        {"text": _SAID}, {"text": _SAID, "cut_after": 3}, {"status": 400, "message": _SAID}
    ]  # fmt: skip
    answers = [
        cell.chat({"model": CHAT, "messages": prompt(script, text=_SECRET), "stream": stream})
        for script in scripts
        for stream in (False, True)
    ]
    for answer in answers:
        collector.tree_of(answer.headers["x-request-id"])
    sent = repr(collector.spans())
    assert len(sent) > 1000
    for secret in (_SECRET, _SAID, cell.key, cell.dsn):
        assert secret not in sent


def test_what_waits_when_a_gateway_ends_is_posted(cells: CellFactory) -> None:
    with TraceCollector() as collector:
        settings = {"telemetry.traces_url": collector.url, "telemetry.traces_share": 1.0}
        with cells.open(settings) as cell:
            cell.set_up(CHAT)
            answer = cell.chat(chat_body())
            cell.gateway.terminate()
            assert cell.gateway.wait() == 0
            collector.tree_of(answer.headers["x-request-id"])


def test_nothing_is_traced_unless_it_is_switched_on(cells: CellFactory) -> None:
    with cells.open() as cell:
        engine = cell.set_up(CHAT)
        answer = cell.post(_V1, chat_body(), headers={"traceparent": GOOD.decode()})
        assert "x-penstock-trace" not in answer.headers
        assert "trace" not in cell.gateway.request_line(answer.headers["x-request-id"])
        last = engine.state().last_request
        assert last is not None
        assert "traceparent" not in last["headers"]


def test_only_what_went_wrong_is_traced_without_a_share(cells: CellFactory) -> None:
    with TraceCollector() as collector:
        settings = {"telemetry.traces_url": collector.url, "telemetry.traces_share": 0.0}
        with cells.open(settings) as cell:
            engine = cell.set_up(CHAT)
            good = cell.chat(chat_body())
            last = engine.state().last_request
            assert last is not None
            assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", last["headers"]["traceparent"])
            nobody = cell.post(_V1, chat_body(), headers={"authorization": "Bearer nobody"})
            failed = cell.chat(chat_body(script={"status": 500}))
            collector.tree_of(failed.headers["x-request-id"])
            told = {span.attributes["penstock.request.id"] for span in collector.spans()}
            assert good.headers["x-request-id"] not in told
            assert nobody.headers["x-request-id"] not in told


@pytest.mark.parametrize("status", [0, 503], ids=["hung", "refusing"])
def test_a_collector_that_takes_nothing_costs_only_its_traces(
    cells: CellFactory, status: int
) -> None:
    with TraceCollector() as collector:
        collector.status = status
        settings = {
            "telemetry.traces_url": collector.url,
            "telemetry.traces_share": 1.0,
            "telemetry.traces_waiting_max": 20,
            "telemetry.traces_batch": 10,
            "telemetry.traces_timeout_seconds": 1,
        }
        with cells.open(settings) as cell:
            cell.set_up(CHAT)
            cell.chat(chat_body())
            eventually(lambda: collector.posts > 0)
            slowest = 0.0
            for _ in range(100):
                answer = cell.chat(chat_body())
                assert answer.status_code == 200
                slowest = max(slowest, answer.elapsed.total_seconds())
            assert slowest < 0.9, "a request waited for the collector"
            # All but the 20 that may wait, and the 10 that may be on their way.
            dropped = "penstock_traces_dropped_total"
            eventually(lambda: cell.gateway.metric(dropped) >= 100 - 20 - 10)
            collector.status = 200
            eventually(lambda: bool(collector.spans()))
            answer = cell.chat(chat_body())
            collector.tree_of(answer.headers["x-request-id"])
