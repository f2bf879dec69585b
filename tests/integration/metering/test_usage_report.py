"""Usage reports on a real Postgres: sums, sessions, single requests, limits."""

from datetime import timedelta
from typing import Any

import pytest
from tests.integration.cells.usage_rows import HOUR, PRICE, attempt, id_at, new_account, write

from penstock import errors
from penstock.metering.refusals import Refusals
from penstock.metering.reports.usage_reports import AT_ONCE_MAX, UsageReports
from penstock.metering.settings import MeteringSettings
from penstock.records.price import Price
from penstock.store import Store
from penstock.wire.resources.usage_query import Label, SessionQuery, Step, UsageQuery

DAY: dict[str, Any] = {
    "since": HOUR.replace(hour=0),
    "until": HOUR.replace(hour=0) + timedelta(days=1),
}
ACCOUNT = new_account()


@pytest.fixture
def reports(store: Store) -> UsageReports:
    return UsageReports(store, MeteringSettings())


async def test_sums_are_those_of_the_rows(store: Store, reports: UsageReports) -> None:
    await write(
        store,
        [
            attempt(ACCOUNT, workflow="a", first_token_us=100_000),
            attempt(ACCOUNT, workflow="a", first_token_us=110_000, client_retry=1),
            attempt(ACCOUNT, workflow="b", prompt_tokens=None, cached_tokens=None,
                    output_tokens=None, outcome="failed", client_retry=2),
            attempt(new_account(), workflow="a"),
        ],
    )  # fmt: skip
    query = UsageQuery(**DAY, group_by=(Label.WORKFLOW,), filters={Label.ACCOUNT: ACCOUNT})
    answer = await reports.usage(query)
    assert not answer.has_more
    first, second = answer.rows
    assert first.labels == {"workflow": "a"}
    assert (first.requests, first.attempts, first.ok, first.failed) == (2, 2, 2, 0)
    assert (first.prompt_tokens, first.cached_tokens, first.output_tokens) == (2000, 200, 100)
    # 900 x $0.60 + 100 x $0.15 + 50 x $3.00 for a million, twice.
    assert first.cost_nanousd == 2 * (540_000 + 15_000 + 150_000)
    assert first.cost_usd == "0.001410000"
    assert first.saved_nanousd == 2 * 100 * 450
    assert first.hit_ratio == 0.1
    assert first.retry_success == 1.0
    assert first.first_token_p50_ms == pytest.approx(105, rel=0.19)
    assert (second.retried, second.retried_ok, second.retry_success) == (1, 0, 0.0)
    assert second.refusals is None


async def test_unknown_is_null_and_not_zero(store: Store, reports: UsageReports) -> None:
    await write(store, [attempt(ACCOUNT, cached_tokens=None)])
    (row,) = (await reports.usage(UsageQuery(**DAY))).rows
    assert row.prompt_tokens == 1000
    assert row.hit_ratio is None
    assert row.first_token_p50_ms is None
    assert row.retry_success is None


async def test_cached_tokens_that_cost_more_save_less_than_nothing(
    store: Store, reports: UsageReports
) -> None:
    await write(store, [attempt(ACCOUNT, price=Price(100_000_000, 200_000_000, 0))])
    (row,) = (await reports.usage(UsageQuery(**DAY))).rows
    assert (row.saved_nanousd, row.saved_usd) == (-10_000, "-0.000010000")


async def test_rows_are_by_hour_and_by_day(store: Store, reports: UsageReports) -> None:
    times = [
        HOUR,
        HOUR + timedelta(minutes=59),
        HOUR + timedelta(hours=1),
        HOUR - timedelta(days=1),
    ]
    await write(store, [attempt(ACCOUNT, asked_at=time.timestamp()) for time in times])
    period: dict[str, Any] = {"since": HOUR - timedelta(days=2), "until": HOUR + timedelta(days=1)}
    by_hour = await reports.usage(UsageQuery(**period, by=Step.HOUR))
    assert [(row.start, row.requests) for row in by_hour.rows] == [
        (HOUR - timedelta(days=1), 1), (HOUR, 2), (HOUR + timedelta(hours=1), 1)
    ]  # fmt: skip
    by_day = await reports.usage(UsageQuery(**period, by=Step.DAY))
    assert [row.requests for row in by_day.rows] == [1, 3]
    (whole,) = (await reports.usage(UsageQuery(**period))).rows
    assert (whole.start, whole.requests, whole.labels) == (None, 4, {})


async def test_period_ends_before_its_end(store: Store, reports: UsageReports) -> None:
    await write(store, [attempt(ACCOUNT)])
    before = UsageQuery(since=HOUR - timedelta(hours=1), until=HOUR)
    assert (await reports.usage(before)).rows == []


async def test_refusals_are_told_by_reason_even_of_those_who_used_nothing(
    store: Store, reports: UsageReports
) -> None:
    await write(store, [attempt(ACCOUNT)])
    refusals = Refusals(store, 100)
    other = new_account()
    for who, reason in ((ACCOUNT, "rate_limited"), (ACCOUNT, "rate_limited"), (other, "spent")):
        refusals.count(HOUR.timestamp(), who, "key-1", reason)
    await refusals.flush()
    answer = await reports.usage(UsageQuery(**DAY, by=Step.HOUR, group_by=(Label.ACCOUNT,)))
    assert [(row.labels["account"], row.requests, row.refusals) for row in answer.rows] == [
        (ACCOUNT, 1, {"rate_limited": 2}), (other, 0, {"spent": 1})
    ]  # fmt: skip
    (whole,) = (await reports.usage(UsageQuery(**DAY))).rows
    assert whole.refusals == {"rate_limited": 2, "spent": 1}


async def test_more_rows_than_the_limit_are_said(store: Store, reports: UsageReports) -> None:
    workflows = [f"w{i}" for i in range(4)]
    await write(
        store,
        [attempt(ACCOUNT, workflow=w, output_tokens=i) for i, w in enumerate(workflows)],
    )
    answer = await reports.usage(UsageQuery(**DAY, group_by=(Label.WORKFLOW,), limit=3))
    assert [row.labels["workflow"] for row in answer.rows] == ["w3", "w2", "w1"]
    assert answer.has_more
    assert not (
        await reports.usage(UsageQuery(**DAY, group_by=(Label.WORKFLOW,), limit=4))
    ).has_more


async def test_too_long_a_period_is_refused(reports: UsageReports) -> None:
    with pytest.raises(errors.InvalidRequest, match="400 days"):
        await reports.usage(UsageQuery(since=HOUR - timedelta(days=401), until=HOUR))


async def test_hit_ratio_is_by_prompt_family(store: Store, reports: UsageReports) -> None:
    await write(
        store,
        [
            attempt(ACCOUNT, prompt_family="x", cached_tokens=900),
            attempt(ACCOUNT, prompt_family="x", cached_tokens=None),
            attempt(ACCOUNT, prompt_family="y", cached_tokens=0),
        ],
    )
    answer = await reports.usage(UsageQuery(**DAY, group_by=(Label.PROMPT_FAMILY,)))
    ratios = {row.labels["prompt_family"]: row.hit_ratio for row in answer.rows}
    assert ratios == {"x": 0.9, "y": 0.0}


async def test_session_shows_its_turns_in_order_and_how_its_prompt_grows(
    store: Store, reports: UsageReports
) -> None:
    start = HOUR.timestamp()
    retried = id_at(start + 20)
    await write(
        store,
        [
            attempt(ACCOUNT, session="s", asked_at=start + 10, prompt_tokens=1000),
            attempt(ACCOUNT, session="s", asked_at=start, prompt_tokens=500),
            attempt(ACCOUNT, session="s", asked_at=start + 20, request=retried, outcome="failed",
                    prompt_tokens=None, cached_tokens=None, output_tokens=None),
            attempt(ACCOUNT, session="s", asked_at=start + 20, request=retried, attempt=2,
                    prompt_tokens=1500, replica="r-2", session_moved="lost", cache_break="tools"),
            attempt(ACCOUNT, session="other", asked_at=start + 30),
            attempt(new_account(), session="s", asked_at=start + 30),
        ],
    )  # fmt: skip
    query = SessionQuery(account=ACCOUNT, session="s", **DAY)
    answer = await reports.session(query)
    assert [turn.number for turn in answer.turns] == [1, 2, 3]
    assert [turn.prompt_tokens for turn in answer.turns] == [500, 1000, 1500]
    assert [turn.tokens for turn in answer.turns] == [550, 1050, 1550]
    last = answer.turns[2]
    assert (last.outcome, last.replica) == ("ok", "r-2")
    assert (last.session_moved, last.cache_break) == ("lost", "tools")
    assert (answer.turn_count, answer.tokens_per_turn) == (3, 1050.0)
    assert answer.prompt_growth_tokens == pytest.approx(500)
    assert answer.cost_nanousd == sum(turn.cost_nanousd for turn in answer.turns)


async def test_session_of_ten_thousand_turns_is_cut_and_says_so(
    store: Store, reports: UsageReports
) -> None:
    start = HOUR.timestamp()
    for part in range(0, 10_000, 2500):
        await write(
            store,
            [
                attempt(ACCOUNT, session="long", asked_at=start + i / 10, prompt_tokens=i)
                for i in range(part, part + 2500)
            ],
        )
    query = SessionQuery(account=ACCOUNT, session="long", **DAY, limit=100)
    answer = await reports.session(query)
    assert (len(answer.turns), answer.has_more, answer.turn_count) == (100, True, 10_000)
    assert answer.prompt_growth_tokens == pytest.approx(1.0)


async def test_session_without_turns_is_not_found(reports: UsageReports) -> None:
    with pytest.raises(errors.NotFound):
        await reports.session(SessionQuery(account=ACCOUNT, session="nobody", **DAY))


async def test_request_shows_its_attempts_and_spells_its_charge_out(
    store: Store, reports: UsageReports
) -> None:
    id = id_at(HOUR.timestamp())
    await write(
        store,
        [
            attempt(ACCOUNT, request=id, outcome="failed", charge_reason="not_delivered"),
            attempt(ACCOUNT, request=id, attempt=2),
        ],
    )
    answer = await reports.request(id)
    first, second = answer.attempts
    assert (answer.cost_nanousd, first.charge_nanousd, second.charge_nanousd) == (
        705_000,
        0,
        705_000,
    )
    assert second.input_nanousd_per_mtok == PRICE.input_nanousd_per_mtok
    assert second.calculation.calculated_nanousd == second.charge_nanousd
    assert second.calculation.text == (
        "(900 uncached x 600000000 + 100 cached x 150000000 + 50 output x 3000000000)"
        " x 10000/10000 / 1000000 = 705000 nano-dollars"
    )
    assert first.calculation.text.endswith("; charged 0: not_delivered")


async def test_foreign_and_unknown_requests_are_not_found(
    store: Store, reports: UsageReports
) -> None:
    id = id_at(HOUR.timestamp())
    await write(store, [attempt(ACCOUNT, request=id)])
    assert (await reports.request(id, account=ACCOUNT)).id == id
    unknown = [id_at(HOUR.timestamp()), "x", "", "ffffffff-ffff-7fff-bfff-ffffffffffff", id.upper()]
    for wrong in [*unknown, "00000000-0000-4000-8000-000000000000"]:
        with pytest.raises(errors.NotFound):
            await reports.request(wrong)
    with pytest.raises(errors.NotFound):
        await reports.request(id, account=new_account())


async def test_too_many_reports_at_once_are_told_to_come_again(reports: UsageReports) -> None:
    async with reports.reading():
        assert AT_ONCE_MAX == 2
        async with reports.reading():
            with pytest.raises(errors.Overloaded):
                await reports.usage(UsageQuery(**DAY))
    assert (await reports.usage(UsageQuery(**DAY))).rows == []
