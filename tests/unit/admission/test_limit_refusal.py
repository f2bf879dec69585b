"""What a refused caller is told, and when to come again."""

import pytest
from tests.unit.admission.limit_samples import NOW, a_balance, a_limit

from penstock import errors
from penstock.admission.division import Shortage
from penstock.admission.refusal import refusal
from penstock.records.limit import Limit, Measure, Period, Scope


def told(limit: Limit, value: str = "", **facts: int) -> errors.OverLimit:
    given = {"needed": 30, "left": 20, "amount": limit.amount, "is_held": 0, **facts}
    balance = a_balance(limit, value)
    shortage = Shortage(
        balance, given["needed"], given["left"], given["amount"], bool(given["is_held"])
    )
    return refusal(shortage, NOW, 1.5)


@pytest.mark.parametrize(
    ("measure", "period", "kind"),
    [
        (Measure.REQUESTS, Period.MINUTE, errors.RateLimited),
        (Measure.TOKENS, Period.MINUTE, errors.RateLimited),
        (Measure.TOKENS, Period.DAY, errors.QuotaSpent),
        (Measure.REQUESTS, Period.MONTH, errors.QuotaSpent),
        (Measure.NANOUSD, Period.DAY, errors.BudgetSpent),
        (Measure.NANOUSD, Period.MINUTE, errors.BudgetSpent),
    ],
)
def test_its_class_says_rate_quota_or_budget(
    measure: Measure, period: Period, kind: type[errors.OverLimit]
) -> None:
    assert type(told(a_limit(measure=measure, period=period))) is kind


def test_it_names_limit_scope_what_is_left_and_when_it_begins_anew() -> None:
    error = told(a_limit(measure=Measure.NANOUSD, scope=Scope.WORKFLOW, value="*"), "nightly")
    assert error.message == (
        "The limit of 0.0000001 USD per day for workflow `nightly` leaves 0.00000002 USD, and this"
        " request may need 0.00000003 USD. It begins anew at 2027-01-16 00:00:00 UTC. Ask for fewer"
        " tokens, wait until then, or have the limit raised."
    )
    assert error.param is None
    assert error.retry_after_seconds == 57_570
    assert not error.is_retryable


def test_requests_per_minute_say_to_wait_for_the_minute() -> None:
    error = told(
        a_limit(measure=Measure.REQUESTS, period=Period.MINUTE, amount=60), needed=1, left=0
    )
    assert error.message == (
        "The limit of 60 requests per minute for this account leaves 0 requests, and this request"
        " may need 1 request. It begins anew at 2027-01-15 08:01:00 UTC. Wait until then, or have"
        " the limit raised."
    )
    assert error.retry_after_seconds == 30
    assert error.is_retryable


def test_what_is_only_held_may_come_back_soon() -> None:
    error = told(a_limit(), is_held=1)
    assert error.retry_after_seconds == 2
    assert "try in 2 s" in error.message


def test_waiting_does_not_help_a_request_larger_than_its_limit() -> None:
    error = told(a_limit(amount=29))
    assert error.retry_after_seconds is None
    assert "more than the whole limit" in error.message
