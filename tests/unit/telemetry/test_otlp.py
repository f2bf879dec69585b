"""What is posted, as a collector reads it: one tree for each request, with typed attributes."""

from tests.unit.telemetry.callers_trace import GOOD, SPAN, TRACE
from tests.unit.telemetry.ended_requests import LOW, ODD, WRITER, Desk, attempt
from tests.unit.telemetry.read_spans import SentSpan, only_tree, read_spans

from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.records.request import Outcome, RequestEnd
from penstock.records.usage import Usage
from penstock.telemetry.otlp import spans_of


def sent(desk: Desk) -> list[SentSpan]:
    """What a collector reads of the traces that wait."""
    return read_spans(
        WRITER.body(
            [span for each in desk.traces.take(10) for span in spans_of(each, desk.traces.epoch())]
        )
    )


def test_a_request_is_the_parent_of_its_attempts() -> None:
    desk = Desk(traces_share=1.0)
    trace = desk.traces.begin(LOW, [(b"traceparent", GOOD)], desk.clock.monotonic())
    trace.attempts.append(
        attempt(
            1000.25,
            is_stream=True,
            choices=2,
            output_tokens_max=2048,
            session=ODD,
            workflow="w",
            cached_expected=60,
            session_moved="load",
            cache_break="tools",
        )
    )
    desk.clock.advance(1.0)
    end = RequestEnd(
        trace=trace,
        status=200,
        attempts=1,
        charge_nanousd=1_500_000,
        waited_seconds=0.25,
        total_seconds=1.0,
    )
    desk.traces.note(LOW, "/v1/chat/completions", None, end, "acme")
    root, [child] = only_tree(sent(desk))
    assert (root.service, root.name, root.kind) == (
        "penstock-gateway", "POST /v1/chat/completions", "SERVER"
    )  # fmt: skip
    assert (root.trace_id, root.parent_id) == (TRACE, SPAN)
    assert root.end_nanos - root.start_nanos == 10**9
    assert root.start_nanos == 1_800_000_000 * 10**9
    assert root.attributes == {
        "penstock.outcome": "ok",
        "penstock.waited_ms": 250.0,
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "penstock.request.id": LOW,
        "penstock.account": "acme",
        "http.response.status_code": 200,
        "penstock.cost_usd": 0.0015,
    }
    assert (child.name, child.kind, child.is_error) == ("chat @cf/x/y", "CLIENT", False)
    assert child.start_nanos == root.start_nanos + 250_000_000
    assert child.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "@cf/x/y",
        "gen_ai.request.stream": True,
        "server.address": "engine.example",
        "server.port": 443,
        "penstock.replica": "r1",
        "penstock.request.id": LOW,
        "penstock.outcome": "ok",
        "gen_ai.request.max_tokens": 1024,
        "gen_ai.request.choice.count": 2,
        "gen_ai.conversation.id": ODD,
        "gen_ai.workflow.name": "w",
        "penstock.cached_expected": 60,
        "penstock.session_moved": "load",
        "penstock.cache_break": "tools",
        "gen_ai.response.model": "served",
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 64,
    }


def test_a_failure_has_its_code_and_only_ours_are_errors_of_the_server() -> None:
    desk = Desk(traces_share=1.0)
    desk.end(outcome=Outcome.FAILED, error_code="rate_limited", status=429)
    desk.end(outcome=Outcome.FAILED, error_code="engine_failed", status=502)
    desk.end(outcome=Outcome.FAILED, error_code="engine_lost", status=200)
    desk.end(outcome=Outcome.CLIENT_LEFT, status=0)
    spans = sent(desk)
    assert [span.is_error for span in spans] == [False, True, True, False]
    assert [span.attributes.get("error.type") for span in spans] == [
        "rate_limited", "engine_failed", "engine_lost", None
    ]  # fmt: skip
    assert "http.response.status_code" not in spans[-1].attributes
    assert spans[0].attributes["penstock.contract"] == "review@3"
    assert spans[0].attributes["penstock.account"] == "acme"


def test_an_attempt_has_why_the_model_stopped_as_an_array() -> None:
    desk = Desk(traces_share=1.0)
    end = desk.end()
    assert end.trace is not None
    of_both = attempt(1000.0)
    of_both.finish_reasons = ("stop", ODD)
    end.trace.attempts.append(of_both)
    _, [child] = only_tree(sent(desk))
    assert child.attributes["gen_ai.response.finish_reasons"] == ["stop", ODD]


def test_an_attempt_that_failed_is_an_error() -> None:
    desk = Desk(traces_share=1.0)
    end = desk.end()
    assert end.trace is not None
    failed = attempt(1000.0, api="embeddings")
    failed.outcome, failed.error_code = "failed", "replica_unreachable"
    failed.first_data_at, failed.usage = None, Usage(7, 0, is_estimated=True)
    end.trace.attempts.append(failed)
    _, [child] = only_tree(sent(desk))
    assert (child.name, child.is_error) == ("embeddings @cf/x/y", True)
    assert child.attributes["error.type"] == "replica_unreachable"
    assert child.attributes["penstock.usage_estimated"] is True
    assert "gen_ai.response.model" not in child.attributes
    assert "gen_ai.usage.cache_read.input_tokens" not in child.attributes


def test_decisions_are_events_without_their_facts() -> None:
    desk = Desk(traces_share=1.0)
    end = desk.end()
    assert end.trace is not None
    decision = LoggedDecision(
        kind=DecisionKind.TOOL_CALL,
        verdict=DecisionVerdict.DENY,
        subjects=tuple(f"tool{number}" for number in range(40)),
        reason="tool_call_forbidden",
        facts={"held_bytes": 5},
    )
    for _ in range(40):
        end.trace.add_decision(1000.25, decision)
    [span] = sent(desk)
    assert len(span.events) == 32
    event = span.events[0]
    assert (event.name, event.at_nanos) == ("penstock.decision", span.start_nanos + 250_000_000)
    assert event.attributes == {
        "penstock.decision.kind": "tool_call",
        "penstock.decision.verdict": "deny",
        "penstock.decision.subjects": [f"tool{number}" for number in range(32)],
        "penstock.decision.observed": False,
    }


def test_a_job_is_a_tree_of_its_own() -> None:
    desk = Desk(traces_share=1.0)
    trace = desk.traces.begin_job(LOW, desk.clock.monotonic())
    desk.clock.advance(1.0)
    desk.traces.note(LOW, "", None, RequestEnd(trace=trace, attempts=1), "acme")
    [span] = sent(desk)
    assert (span.name, span.kind, span.parent_id) == ("penstock.job", "CONSUMER", "")
    assert span.attributes == {
        "penstock.outcome": "ok", "penstock.waited_ms": 0.0, "penstock.job.id": LOW,
        "penstock.account": "acme",
    }  # fmt: skip
