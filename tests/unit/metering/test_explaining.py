"""One request explained: what stands out, and what does not."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.metering.attempt_columns import answer_of

from penstock.metering.reports.explaining import explain_attempts, explain_refusal, summary_of
from penstock.metering.reports.surroundings import Surroundings
from penstock.wire.resources.decisions import DecisionAnswer, DecisionChainPlace
from penstock.wire.resources.explanation import (
    Finding,
    RefusedMinute,
    ReplicaHour,
    UsualRequest,
)

USUAL = UsualRequest(
    requests=500,
    prompt_tokens=1000.0,
    output_tokens=5.0,
    hit_ratio=0.9,
    cost_nanousd=200_000.0,
    first_token_p50_ms=400.0,
    first_token_p95_ms=900.0,
)
PRICES = {
    "input_nanousd_per_mtok": 600_000_000,
    "cached_input_nanousd_per_mtok": 100_000_000,
    "output_nanousd_per_mtok": 3_000_000_000,
    "multiplier_bp": 10_000,
}


def replicas(**first_tokens_ms: float) -> list[ReplicaHour]:
    return [
        ReplicaHour(replica=name, requests=40, failed=0, first_token_p50_ms=each)
        for name, each in first_tokens_ms.items()
    ]


def decision(kind: str, verdict: str, *, is_observed: bool = False, reason: str = "") -> Any:
    return DecisionAnswer(
        at=datetime(2026, 11, 1, tzinfo=UTC),
        request=None,
        account="a",
        key="k",
        workflow="w",
        contract="review@3",
        kind=kind,
        verdict=verdict,
        is_observed=is_observed,
        subjects=("bash",),
        reason=reason,
        facts={},
        actor="",
        chain=DecisionChainPlace("long", "h", 1, "", ""),
    )


def explained(
    *attempts: dict[str, Any],
    decisions: list[DecisionAnswer] | None = None,
    around: Surroundings | None = None,
) -> list[Finding]:
    request = answer_of(*attempts)
    return explain_attempts(request.attempts, decisions or [], around or Surroundings([], USUAL))


def kinds(found: list[Finding], about: str) -> list[str]:
    return [each.kind for each in found if each.about == about]


def test_an_ordinary_request_has_nothing_that_stands_out() -> None:
    found = explained({}, around=Surroundings(replicas(r1=400, r2=390, r3=410), USUAL))
    assert [each.about for each in found] == ["cache"]
    assert summary_of(found).startswith("900 of 1000 prompt tokens were cached")


def test_a_replica_that_is_slower_than_the_others_is_named() -> None:
    around = Surroundings(replicas(r1=1200, r2=390, r3=410), USUAL)
    found = explained({}, around=around)
    assert kinds(found, "slow") == ["replica"]
    assert "Replica r1 is slow" in found[0].said
    assert "3.0 times" in found[0].said
    assert "penstock replicas drain r1" in summary_of(found)


@pytest.mark.parametrize("others", [{}, {"r2": 1100.0}, {"r2": 1100.0, "r3": 900.0, "r4": 300.0}])
def test_a_replica_like_the_others_is_not_called_slow(others: dict[str, float]) -> None:
    around = Surroundings(replicas(r1=1200, **others), USUAL)
    assert kinds(explained({}, around=around), "slow") == []


def test_a_replica_of_few_requests_says_nothing() -> None:
    few = ReplicaHour(replica="r1", requests=3, failed=0, first_token_p50_ms=5000.0)
    found = explained({}, around=Surroundings([few, *replicas(r2=400)], USUAL))
    assert kinds(found, "slow") == []


def test_a_long_wait_and_a_first_try_that_failed_are_named() -> None:
    lost = {"replica": "r7", "outcome": "failed", "error": "engine_lost", "duration_ms": 640.0}
    found = explained(lost, {"waited_ms": 3200.0})
    assert kinds(found, "slow") == ["waited", "retried"]
    assert "3.2 s" in found[0].said
    assert "Attempt 1 on replica r7 ended after 640 ms: engine_lost" in found[1].said


def test_a_long_prompt_that_was_not_cached_explains_a_late_first_token() -> None:
    facts = {"prompt_tokens": 41_000, "cached_tokens": 0, "first_token_ms": 4100.0}
    assert kinds(explained(facts), "slow") == ["prompt"]
    # As late as usual, or with nothing to read, it does not.
    assert kinds(explained({**facts, "first_token_ms": 500.0}), "slow") == []
    assert kinds(explained({**facts, "cached_tokens": 40_000}), "slow") == []


def test_a_long_answer_is_named_where_it_took_most_of_the_time() -> None:
    facts = {"output_tokens": 312, "output_tokens_per_second": 74.0, "duration_ms": 4812.0}
    assert kinds(explained(facts), "slow") == ["answer"]


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({"cached_tokens": 0}, "cache"),
        ({"prompt_tokens": 20_000, "cached_tokens": 18_000}, "prompt"),
        ({"output_tokens": 800}, "answer"),
    ],
)
def test_a_dear_request_has_its_largest_cause(facts: dict[str, Any], cause: str) -> None:
    found = explained({**PRICES, "charge_nanousd": 900_000, **facts})
    assert kinds(found, "dear") == [cause]
    assert "4.5 times" in next(each.said for each in found if each.about == "dear")


def test_a_request_that_cost_what_is_usual_is_not_called_dear() -> None:
    assert kinds(explained({**PRICES, "charge_nanousd": 250_000}), "dear") == []
    assert (
        kinds(explained({"charge_nanousd": 900_000}, around=Surroundings([], None)), "dear") == []
    )


def test_a_refusal_by_a_contract_comes_first_and_an_observed_one_does_not_count() -> None:
    denied = decision("tool_call", "deny", reason="tool_call_forbidden")
    found = explained({"waited_ms": 3000.0}, decisions=[denied])
    assert [each.about for each in found] == ["refused", "slow", "cache"]
    assert found[0].said == "The contract review@3 refused bash: tool_call_forbidden."
    observed = decision("tool_call", "deny", is_observed=True)
    assert kinds(explained({}, decisions=[observed]), "refused") == []


def test_a_failure_names_its_replica() -> None:
    found = explained({"outcome": "failed", "error": "engine_lost", "cached_tokens": None})
    assert kinds(found, "refused") == ["engine_lost"]
    assert "penstock replicas logs r1" in found[0].advice


def test_another_model_than_was_asked_for_says_who_chose_it() -> None:
    chosen = decision("fallback", "change")
    found = explained({"model": "cheap", "model_asked": "dear"}, decisions=[chosen])
    assert kinds(found, "model") == ["fallback"]
    assert "It ran on cheap instead of dear" in found[-1].said


def test_what_never_ran_is_explained_by_its_decision_or_by_its_minute() -> None:
    denied = decision("budget", "deny", reason="budget_spent")
    minute = [RefusedMinute(account="a", reason="rate_limited", count=7)]
    assert kinds(explain_refusal([denied], minute), "refused") == ["budget"]
    (counted,) = explain_refusal([], minute)
    assert "7 rate_limited" in counted.said
    assert explain_refusal([], []) == []
    assert "Nothing is known" in summary_of([])
