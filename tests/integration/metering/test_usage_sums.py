"""Reports against a plain sum in Python, for made-up ledgers; hours and rows tell the same."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.cells.usage_rows import (
    HOUR,
    Attempt,
    attempt,
    id_at,
    is_charged,
    new_account,
    write,
)

from penstock.metering.reports.usage_reports import UsageReports
from penstock.metering.settings import MeteringSettings
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage
from penstock.store import Store
from penstock.wire.resources.usage import UsageRow
from penstock.wire.resources.usage_query import Label, Step, UsageQuery

PERIOD: dict[str, Any] = {"since": HOUR, "until": HOUR + timedelta(days=2)}
PRICES = (
    Price(600_000_000, 150_000_000, 3_000_000_000),
    Price(333_333_333, 33_333_333, 777_777_777, 5_000),
    Price(),
)
SUMS = (
    "requests", "attempts", "ok", "client_left", "failed", "interrupted", "retried", "retried_ok",
    "prompt_tokens", "cached_tokens", "output_tokens", "cost_nanousd", "saved_nanousd",
)  # fmt: skip

tokens = st.integers(0, 10**6)
usages = st.tuples(tokens, tokens, st.none() | tokens).map(
    lambda u: Usage(u[0], u[1], None if u[2] is None else min(u[2], u[0]))
)


@st.composite
def attempts(draw: st.DrawFn) -> dict[str, Any]:
    """The facts of one attempt; the account comes later."""
    usage = draw(st.none() | usages)
    outcome = draw(st.sampled_from(["ok", "client_left", "failed", "interrupted"]))
    facts = {
        "asked_at": HOUR.timestamp() + draw(st.integers(0, 36)) * 3600 + draw(st.integers(0, 3599)),
        "key": draw(st.sampled_from("kl")),
        "model": draw(st.sampled_from(["m", "n"])),
        "tier": draw(st.sampled_from(["now", "flex"])),
        "workflow": draw(st.sampled_from(["", "w", "é"])),
        "session": draw(st.sampled_from(["", "s"])),
        "prompt_family": draw(st.sampled_from(["", "f"])),
        "client_retry": draw(st.none() | st.integers(0, 3)),
        "first_token_us": draw(st.none() | st.integers(0, 10**9)),
        "outcome": outcome,
        "price": draw(st.sampled_from(PRICES)),
        "prompt_tokens": None if usage is None else usage.prompt_tokens,
        "output_tokens": None if usage is None else usage.completion_tokens,
        "cached_tokens": None if usage is None else usage.cached_tokens,
    }
    if outcome == "failed" and usage is not None:
        facts["charge_reason"] = "not_delivered"
    if outcome == "client_left" and usage is not None:
        facts["charge_reason"] = draw(st.sampled_from(["", "estimated"]))
    return facts


def rows_of(account: str, made: Iterable[dict[str, Any]]) -> list[Attempt]:
    """Some requests have a failed attempt before the one that was drawn."""
    rows = []
    for number, facts in enumerate(made):
        request = id_at(facts["asked_at"])
        has_earlier = number % 3 == 0
        if has_earlier:
            earlier = facts | {"outcome": "failed", "charge_reason": "not_delivered"}
            rows.append(attempt(account, request=request, **earlier))
        rows.append(attempt(account, request=request, attempt=1 + has_earlier, **facts))
    return rows


def added_up(rows: list[Attempt], query: UsageQuery) -> dict[tuple[object, ...], dict[str, int]]:
    """By start and labels, with nothing clever about it."""
    groups: dict[tuple[object, ...], dict[str, int]] = defaultdict(lambda: dict.fromkeys(SUMS, 0))
    for facts in rows:
        if any(facts[label] != value for label, value in query.filters.items()):
            continue
        start = datetime.fromtimestamp(facts["asked_at"], UTC).replace(minute=0, second=0)
        if query.by is Step.DAY:
            start = start.replace(hour=0)
        sums = groups[(start if query.by else None, *(facts[label] for label in query.group_by))]
        is_retry = (facts["client_retry"] or 0) > 0
        sums["requests"] += facts["attempt"] == 1
        sums["attempts"] += 1
        sums[facts["outcome"]] += 1
        sums["retried"] += is_retry and facts["attempt"] == 1
        sums["retried_ok"] += is_retry and facts["outcome"] == "ok"
        for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
            sums[name] += facts[name] or 0
        sums["cost_nanousd"] += facts["charge_nanousd"]
        sums["saved_nanousd"] += saved(facts)
    return dict(groups)


def saved(facts: dict[str, Any]) -> int:
    price: Price = facts["price"]
    if not is_charged(facts) or facts["cached_tokens"] is None:
        return 0
    # The saving has a price of its own: what an uncached token costs more than a cached one.
    more = price.input_nanousd_per_mtok - price.cached_input_nanousd_per_mtok
    return cost_nanousd(Usage(facts["cached_tokens"], 0), Price(more, 0, 0, price.multiplier_bp))


def reported(rows: list[UsageRow], query: UsageQuery) -> dict[tuple[object, ...], dict[str, int]]:
    return {
        (row.start, *(row.labels[label] for label in query.group_by)): {
            name: getattr(row, name) for name in SUMS
        }
        for row in rows
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=st.lists(attempts(), max_size=25),
    labels=st.lists(st.sampled_from([*Label][1:5]), unique=True),
    by=st.none() | st.sampled_from(Step),
)
async def test_hourly_sums_and_rows_both_equal_a_plain_sum(
    store: Store, made: list[dict[str, Any]], labels: list[Label], by: Step | None
) -> None:
    account = new_account()
    rows = rows_of(account, made)
    if rows:
        await write(store, rows)
    reports = UsageReports(store, MeteringSettings())
    query = UsageQuery(**PERIOD, by=by, group_by=tuple(labels), filters={Label.ACCOUNT: account})
    hours = await reports.usage(query)
    assert reported(hours.rows, query) == added_up(rows, query)
    for session in ("", "s"):
        filters = {Label.ACCOUNT: account, Label.SESSION: session}
        of_session = UsageQuery(**PERIOD, by=by, group_by=tuple(labels), filters=filters)
        found = await reports.usage(of_session)
        assert reported(found.rows, of_session) == added_up(rows, of_session)
    await check_paths_agree(reports, query)


async def check_paths_agree(reports: UsageReports, query: UsageQuery) -> None:
    """Without any label that needs rows, rows still tell what the hours do, to the last digit."""
    from penstock.metering.reports import statement

    hours = statement.usage_statement(query)
    rows = statement.usage_statement(_ByRows(**_fields(query)))
    async with reports._store.transaction() as transaction:
        assert await transaction.fetch(hours.sql, hours.params) == await transaction.fetch(
            rows.sql, rows.params
        )


class _ByRows(UsageQuery, frozen=True, kw_only=True):
    """The same question, put to the rows."""

    @property
    def needs_attempts(self) -> bool:
        return True


def _fields(query: UsageQuery) -> dict[str, Any]:
    return {name: getattr(query, name) for name in query.__struct_fields__}
