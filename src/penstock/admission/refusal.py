"""Writes the error of a request over a limit: which limit, what is left, until when, what to do."""

import math
from datetime import UTC, datetime

from penstock import errors
from penstock.admission.division import Shortage
from penstock.admission.quantity import quantity
from penstock.records.limit import Limit, Measure, Period, Scope


def refusal(shortage: Shortage, now: float, lease_return_seconds: float) -> errors.OverLimit:
    """Return the error for a shortage, with the time after which a retry may succeed."""
    limit, value, window = shortage.balance.limit, shortage.balance.value, shortage.balance.window
    measure = limit.measure
    text = (
        f"The limit of {quantity(shortage.amount, measure)} per {limit.period} for"
        f" {_whom(limit, value)} leaves {quantity(shortage.left, measure)}, and this request may"
        f" need {quantity(shortage.needed, measure)}."
    )
    resets = datetime.fromtimestamp(window.end, UTC)
    text += f" It begins anew at {resets:%Y-%m-%d %H:%M:%S} UTC."
    seconds: int | None = max(1, math.ceil(window.end - now))
    if shortage.needed > shortage.amount:
        seconds = None
        text += " This request alone is more than the whole limit: ask for fewer tokens."
    elif shortage.is_held:
        seconds = math.ceil(lease_return_seconds)
        text += f" The rest is held by requests that run and may come back: try in {seconds} s."
    elif measure is Measure.REQUESTS:
        text += " Wait until then, or have the limit raised."
    else:
        text += " Ask for fewer tokens, wait until then, or have the limit raised."
    error = _kind(limit)(text, retry_after_seconds=seconds)
    error.contract, error.is_of_session = limit.contract, limit.scope is Scope.SESSION
    return error


def _kind(limit: Limit) -> type[errors.OverLimit]:
    if limit.measure is Measure.NANOUSD:
        return errors.BudgetSpent
    return errors.RateLimited if limit.period is Period.MINUTE else errors.QuotaSpent


def _whom(limit: Limit, value: str) -> str:
    if not limit.contract:
        return "this account" if limit.scope is Scope.ACCOUNT else f"{limit.scope} `{value}`"
    if limit.scope is Scope.WORKFLOW:
        return f"this account under the contract `{limit.contract}`"
    session = value.partition("/")[2]
    return f"{limit.scope} `{session}` under the contract `{limit.contract}`"
