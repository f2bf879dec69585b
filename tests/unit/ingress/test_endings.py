"""The end of a request: one line, one count, and no more in flight than there is."""

import pytest
from tests.unit.engine.engine_line import MODEL, make_request
from tests.unit.ingress.accounting_desk import TARGET, Desk

from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.request import Outcome, RequestEnd, RequestId
from penstock.records.usage import Usage


def test_line_tells_the_facts_and_no_prompt_key_or_query() -> None:
    end = RequestEnd(
        attempts=2,
        replica="r1",
        usage=Usage(30, 5, 10),
        waited_seconds=0.5,
        first_token_seconds=0.25,
        streamed_seconds=1.0,
        total_seconds=2.0,
        status=200,
        charge_nanousd=123_000,
    )
    row, line = Desk().serve(end)
    assert str(line.pop("time")).startswith("2027-01-15T08:00:00")
    assert line == {
        "event": "request",
        "cost_usd": "0.000123000",
        "request": "0190-request",
        "status": 200,
        "outcome": "ok",
        "account": "acme",
        "key": "key1",
        "model": MODEL.id,
        "replica": "r1",
        "session": "s1",
        "attempts": 2,
        "stream": True,
        "path": "/v1/chat/completions",
        "caller_request": "theirs",
        "queue_ms": 500.0,
        "first_token_ms": 250.0,
        "total_ms": 2000.0,
        "prompt_tokens": 30,
        "cached_tokens": 10,
        "output_tokens": 5,
    }
    assert row.in_flight == 0


def test_counts_are_added_once() -> None:
    end = RequestEnd(
        attempts=3,
        usage=Usage(30, 5, 10),
        first_token_seconds=0.25,
        streamed_seconds=1.0,
        status=200,
    )
    row, _ = Desk().serve(end)
    assert (row.prompt_tokens, row.cached_tokens, row.output_tokens) == (30, 10, 5)
    assert row.retries == 2
    assert row.outcomes == {"ok": 1}
    assert row.errors == {}
    assert sum(row.first_token.counts) == 1
    # Four gaps between five tokens in one second.
    assert row.output_token.sum == pytest.approx(0.25)


def test_failure_is_counted_by_its_code() -> None:
    end = RequestEnd(attempts=1, outcome=Outcome.FAILED, error_code="engine_lost", status=502)
    row, line = Desk().serve(end)
    assert row.outcomes == {"failed": 1}
    assert row.errors == {"engine_lost": 1}
    assert line["error"] == "engine_lost"
    assert line["outcome"] == "failed"


def test_client_that_left_is_no_error() -> None:
    row, line = Desk().serve(RequestEnd(outcome=Outcome.CLIENT_LEFT))
    assert row.outcomes == {"client_left": 1}
    assert row.errors == {}
    assert line["outcome"] == "client_left"


def test_unknown_usage_is_absent_and_never_zero() -> None:
    row, line = Desk().serve(RequestEnd(attempts=1, first_token_seconds=0.1, status=200))
    assert not {"prompt_tokens", "output_tokens", "cached_tokens"} & set(line)
    assert sum(row.output_token.counts) == 0


def test_cached_tokens_that_the_engine_did_not_tell_are_absent() -> None:
    row, line = Desk().serve(RequestEnd(usage=Usage(30, 5), status=200))
    assert "cached_tokens" not in line
    assert line["prompt_tokens"] == 30
    assert row.cached_tokens == 0


def test_single_token_and_whole_answers_have_no_time_per_token() -> None:
    desk = Desk()
    desk.serve(RequestEnd(usage=Usage(3, 1), first_token_seconds=0.1, streamed_seconds=0.0))
    row, _ = desk.serve(RequestEnd(usage=Usage(3, 9), first_token_seconds=0.1))
    assert sum(row.output_token.counts) == 0
    assert sum(row.first_token.counts) == 2


def test_request_that_was_never_understood_is_counted_too() -> None:
    desk = Desk()
    end = RequestEnd(outcome=Outcome.FAILED, error_code="unauthenticated", status=401)
    desk.endings.finish(RequestId("r9"), TARGET, None, end)
    line = desk.line()
    assert (line["request"], line["status"], line["error"]) == ("r9", 401, "unauthenticated")
    assert "account" not in line
    (row,) = desk.metrics.rows()
    assert row.errors == {"unauthenticated": 1}
    assert row.in_flight == 0


def test_very_long_path_is_cut() -> None:
    desk = Desk()
    desk.endings.finish(RequestId("r"), b"/" + b"\xff" * 10_000, None, RequestEnd())
    assert len(str(desk.line()["path"])) == 256


def test_numbers_of_an_agent_are_counted_by_its_labels() -> None:
    desk = Desk()
    labels = {"session": "s", "workflow": "w", "prompt_family": "f", "client_retry": 1}
    for attempts, prompt in enumerate((100, 350), 1):
        request = make_request(is_stream=True, **labels)  # type: ignore[arg-type]
        desk.endings.begin(request)
        end = RequestEnd(attempts=attempts, usage=Usage(prompt, 5, 10), first_token_seconds=0.2)
        desk.endings.finish(request.id, TARGET, request, end)
    row = desk.row()
    assert row.client_retries == {"ok": 2}
    assert (sum(row.turn_tokens.counts), row.turn_tokens.sum) == (2, 460)
    assert (sum(row.turn_growth.counts), row.turn_growth.sum) == (1, 250)
    (workflow,), (family,) = desk.metrics.workflows.rows(), desk.metrics.families.rows()
    assert (workflow.label, sum(workflow.first_token.counts)) == ("w", 2)
    assert (workflow.outcomes, workflow.retried) == ({"ok": 2}, {"ok": 1})
    assert (family.prompt_tokens, family.cached_tokens) == (450, 20)
    assert desk.line()["workflow"] == "w"


def test_what_an_engine_did_not_say_is_in_no_hit_ratio() -> None:
    desk = Desk()
    request = make_request(is_stream=False, prompt_family="f", workflow="w", client_retry=0)
    for usage in (Usage(100, 5), None):
        desk.endings.begin(request)
        end = RequestEnd(attempts=1, usage=usage, first_token_seconds=0.2)
        desk.endings.finish(request.id, TARGET, request, end)
    assert desk.metrics.families.rows() == []
    (workflow,) = desk.metrics.workflows.rows()
    assert not any(workflow.first_token.counts), "an answer that is not streamed has no first token"
    assert (workflow.outcomes, workflow.retried) == ({"ok": 2}, {})
    assert desk.row().client_retries == {}, "a first try is no retry"


@pytest.mark.parametrize("account", [None, Account(AccountId("acme"), "Acme")])
def test_refusal_is_counted_by_whoever_was_refused(account: Account | None) -> None:
    desk = Desk()
    end = RequestEnd(outcome=Outcome.FAILED, error_code="rate_limited")
    desk.endings.count_refusal(Key(KeyId("k"), Role.RUNTIME, account), end)
    desk.endings.count_refusal(Key(KeyId("k"), Role.RUNTIME, account), end)
    desk.endings.count_refusal(None, end)
    assert desk.refusals.waiting() == 2


def test_key_that_went_to_another_account_is_counted_and_logged_there() -> None:
    desk = Desk()
    for account in ("acme", "other", "acme"):
        request = make_request(is_stream=False, account=AccountId(account))
        desk.endings.begin(request)
        desk.endings.finish(request.id, TARGET, request, RequestEnd(attempts=1))
        assert desk.line()["account"] == account
    counts = {row.account: row.outcomes["ok"] for row in desk.metrics.rows()}
    assert counts == {"acme": 2, "other": 1}
