"""What is traced: a share by the trace's id, and whatever went wrong; never beyond a bound."""

from typing import Any

import pytest
from tests.unit.telemetry.callers_trace import GOOD, SPAN, TRACE
from tests.unit.telemetry.ended_requests import HIGH, LOW, Desk, attempt

from penstock.clock import new_id
from penstock.records.request import Outcome, RequestEnd

HEADERS = [(b"traceparent", GOOD)]


def test_a_trace_without_a_caller_has_the_requests_own_id() -> None:
    trace = Desk().traces.begin(LOW, [], 1000.0)
    assert (trace.trace_id, trace.parent_id) == (LOW.replace("-", ""), "")
    assert len(trace.span_id) == 16


def test_a_callers_trace_is_taken_over() -> None:
    trace = Desk(traces_share=1.0).traces.begin(LOW, HEADERS, 1000.0)
    assert (trace.trace_id, trace.parent_id) == (TRACE, SPAN)
    assert trace.span_id != SPAN
    assert trace.traceparent("c" * 16) == f"traceparent: 00-{TRACE}-{'c' * 16}-01\r\n"


def test_the_engine_is_told_whether_the_share_has_the_request() -> None:
    desk = Desk(traces_share=0.0)
    assert desk.traces.begin(LOW, HEADERS, 1000.0).traceparent(SPAN).endswith("-00\r\n")


def test_the_share_is_decided_by_the_id_alone() -> None:
    one, other = Desk(traces_share=0.3), Desk(traces_share=0.3)
    ids = [new_id() for _ in range(2000)]
    sampled = [one.traces.begin(id_, [], 1000.0).is_sampled for id_ in ids]
    assert sampled == [other.traces.begin(id_, [], 1000.0).is_sampled for id_ in ids]
    assert 480 <= sum(sampled) <= 720


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0, 0), (0.5, 1, 0), (1.0, 1, 1)])
def test_ordinary_requests_are_traced_by_share(share: float, low: int, high: int) -> None:
    desk = Desk(traces_share=share)
    desk.end(LOW)
    assert desk.kept() == low
    desk.end(HIGH)
    assert desk.kept() == high


@pytest.mark.parametrize(
    "facts",
    [
        {"outcome": Outcome.FAILED, "error_code": "engine_lost"},
        # What a contract withheld was served.
        {"outcome": Outcome.OK, "error_code": "tool_call_forbidden"},
        {"total_seconds": 2.0},
        {"first_token_seconds": 1.5, "waited_seconds": 0.5},
    ],
    ids=["failed", "withheld", "slow", "late first token"],
)
def test_whatever_went_wrong_is_traced(facts: dict[str, Any]) -> None:
    desk = Desk(traces_share=0.0, traces_slow_ms=2000)
    desk.end(HIGH, **facts)
    assert desk.kept() == 1


def test_a_long_stream_with_an_early_first_token_is_not_slow() -> None:
    desk = Desk(traces_share=0.0, traces_slow_ms=2000)
    desk.end(HIGH, first_token_seconds=0.1, total_seconds=60.0)
    assert desk.kept() == 0


@pytest.mark.parametrize("facts", [{"session_moved": "load"}, {"error_code": "engine_lost"}])
def test_moved_sessions_and_failed_attempts_are_traced(facts: dict[str, str]) -> None:
    desk = Desk(traces_share=0.0)
    trace = desk.traces.begin(HIGH, [], 1000.0)
    made = attempt(1000.0, session_moved=facts.get("session_moved", ""))
    made.error_code = facts.get("error_code", "")
    trace.attempts.extend([made, attempt(1000.6)])
    desk.traces.note(HIGH, "/v1/x", None, RequestEnd(trace=trace), "acme")
    assert desk.kept() == 1


def test_errors_of_callers_without_a_key_are_traced_by_share() -> None:
    desk = Desk(traces_share=0.5)
    refused: dict[str, Any] = {
        "outcome": Outcome.FAILED, "error_code": "invalid_key", "status": 401
    }  # fmt: skip
    desk.end(HIGH, account="", **refused)
    assert desk.kept() == 0
    desk.end(LOW, account="", **refused)
    assert desk.kept() == 1


def test_further_traces_are_dropped_and_counted() -> None:
    desk = Desk(traces_share=1.0, traces_waiting_max=5)
    for _ in range(8):
        desk.end()
    assert (desk.traces.waiting, desk.traces.dropped) == (5, 3)
    assert len(desk.traces.take(2)) == 2
    desk.end()
    assert (desk.traces.waiting, desk.traces.dropped) == (4, 3)


def test_what_waits_holds_no_prompt() -> None:
    desk = Desk(traces_share=1.0)
    desk.end()
    [ended] = desk.traces.take(1)
    fields = [getattr(ended, name) for name in dir(ended) if not name.startswith("_")]
    assert not any(type(each).__name__ == "InferenceRequest" for each in fields)
