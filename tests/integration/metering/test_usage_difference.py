"""Two periods compared on a real database, against a plain sum in Python."""

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

import msgspec
import psycopg
import pytest
from tests.integration.cells.usage_rows import HOUR, Attempt, attempt, id_at, write

from penstock import errors
from penstock.metering import PriceBook
from penstock.metering.reports.difference_rows import difference_statement
from penstock.metering.reports.usage_reports import UsageReports
from penstock.metering.settings import MeteringSettings
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.price import Prices, Tier, cost_nanousd
from penstock.records.usage import Usage
from penstock.store import Store
from penstock.wire.resources.difference_query import DifferenceQuery
from penstock.wire.resources.usage_difference import DifferenceAnswer, DifferenceRow
from penstock.wire.resources.usage_query import Label

DAY = timedelta(days=1)
# HOUR is a noon: each period has a midnight in it, and at the second one prices rise.
BEFORE, AFTER = HOUR, HOUR + DAY
QUERY = DifferenceQuery(since=AFTER, until=AFTER + DAY, against_since=BEFORE)
ONE, TWO = "@cf/test/chat", "@cf/test/other"


def model(name: str, *prices: Prices) -> Model:
    recipe = Recipe(command=("x",))
    return Model(
        id=ModelId(name), family=Family.OPENAI, context_tokens=1000, recipe=recipe, prices=prices
    )


BOOK = PriceBook(
    [
        model(
            ONE,
            Prices(600_000_000, 150_000_000, 3_000_000_000),
            Prices(660_000_000, 165_000_000, 3_300_000_000, valid_from=date(2026, 11, 12)),
        ),
        model(TWO, Prices(2_500_000_007, 250_000_003, 12_000_000_011)),
    ]
)


def used(account: str, at: float, **facts: Any) -> Attempt:
    """An attempt at the book's price."""
    name, tier = facts.get("model", ONE), Tier(facts.get("tier", "now"))
    price = BOOK.price(ModelId(name), tier, at) if BOOK.knows(name) else None
    return attempt(account, asked_at=at, **({} if price is None else {"price": price}), **facts)


def made_up(seed: int) -> list[Attempt]:
    """Requests of both periods, some tried twice, some not charged."""
    random_, rows = random.Random(seed), []
    for _ in range(300):
        at = BEFORE.timestamp() + random_.randrange(2 * 86_400)
        prompt = random_.randrange(50_000)
        facts = {
            "workflow": random_.choice(["", "nightly", "review"]),
            "model": random_.choice([ONE, TWO]),
            "tier": random_.choice(["now", "flex"]),
            "prompt_tokens": prompt,
            "cached_tokens": random_.choice([None, random_.randint(0, prompt)]),
            "output_tokens": random_.randrange(900),
        }
        account, request = random_.choice("abcd"), id_at(at)
        if random_.random() < 0.2:
            lost = {"outcome": "failed", "charge_reason": "not_delivered"}
            rows.append(used(account, at, request=request, **facts | lost))
            rows.append(used(account, at, request=request, attempt=2, **facts))
        else:
            rows.append(used(account, at, request=request, **facts))
    return rows


def listed(each: Attempt) -> int:
    usage = Usage(each["prompt_tokens"], each["output_tokens"], each["cached_tokens"])
    return cost_nanousd(usage, each["price"])


def parts_of(row: DifferenceRow) -> dict[str, int]:
    return msgspec.structs.asdict(row.parts_nanousd)


async def compared(
    store: Store, query: DifferenceQuery = QUERY, *, groups_max: int = 200
) -> DifferenceAnswer:
    settings = MeteringSettings(report_groups_max=groups_max)
    return await UsageReports(store, settings).difference(query, BOOK)


async def test_rows_add_up_to_the_ledger(store: Store) -> None:
    rows = made_up(1)
    await write(store, rows)
    answer = await compared(store)
    charges: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for each in rows:
        side = each["asked_at"] >= AFTER.timestamp()
        sums = charges[each["account"], each["workflow"]]
        sums[side] += each["charge_nanousd"]
        sums[2] += listed(each) if side else -listed(each)
    assert len(answer.rows) == len(charges) == 12
    for row in answer.rows:
        before, after, list_change = charges[row.labels["account"], row.labels["workflow"]]
        assert (row.before_nanousd, row.after_nanousd) == (before, after)
        parts = parts_of(row)
        assert sum(parts.values()) == row.change_nanousd == after - before
        # Each attempt was rounded by itself, so by up to half a nano-dollar.
        assert abs(sum(parts.values()) - parts["uncharged"] - list_change) <= len(rows) / 2
    _is_sum(answer.total, answer.rows)
    changes = [abs(row.change_nanousd) for row in answer.rows]
    assert changes == sorted(changes, reverse=True)
    assert (answer.unpriced_models, answer.dearer_models) == ([], [])
    assert answer.total.parts_nanousd.price > 0


async def test_swapped_periods_negate_every_part(store: Store) -> None:
    await write(store, made_up(2))
    there = await compared(store)
    back = await compared(store, DifferenceQuery(since=BEFORE, until=AFTER, against_since=AFTER))
    found = {tuple(row.labels.values()): parts_of(row) for row in back.rows}
    for row in there.rows:
        parts = found[tuple(row.labels.values())]
        assert parts_of(row) == {name: -part for name, part in parts.items()}


async def test_every_kind_of_row_has_the_same_total(store: Store) -> None:
    """Rows by one label are sums over groups by both, so no cause turns into another."""
    await write(store, made_up(3))
    whole = (await compared(store)).total
    for label, count in ((Label.WORKFLOW, 3), (Label.ACCOUNT, 4)):
        answer = await compared(store, msgspec.structs.replace(QUERY, by=(label,)))
        assert len(answer.rows) == count
        assert answer.total == whole
        _is_sum(whole, answer.rows)


async def test_small_changes_beyond_the_limit_are_one_row(store: Store) -> None:
    await write(store, made_up(4))
    every = await compared(store)
    few = await compared(store, groups_max=5)
    assert [row.is_other for row in few.rows] == [False] * 5 + [True]
    assert few.rows[:5] == every.rows[:5]
    assert few.rows[5].labels == {}
    assert few.total.change_nanousd == every.total.change_nanousd
    _is_sum(few.total, few.rows)
    by_account = msgspec.structs.replace(QUERY, by=(Label.ACCOUNT,))
    accounts = await compared(store, by_account, groups_max=3)
    assert [row.is_other for row in accounts.rows] == [False] * 3 + [True]
    _is_sum(accounts.total, accounts.rows)
    with_all = {row.labels["account"]: row for row in (await compared(store, by_account)).rows}
    for row in accounts.rows[:3]:
        assert row.change_nanousd == with_all[row.labels["account"]].change_nanousd


async def test_prices_are_those_of_each_hour(store: Store) -> None:
    """The price rises twelve hours into the later period, and nothing else changes."""
    starts = [BEFORE.timestamp() + hour * 3600 for hour in range(48)]
    await write(store, [used("a", at, workflow="w") for at in starts])
    (row,) = (await compared(store)).rows
    assert row.change_nanousd > 0
    assert row.parts_nanousd.price == row.change_nanousd
    # Twelve of 24 hours are a tenth dearer.
    assert row.why == "prices +5.0 %"


async def test_filters_and_periods_apart(store: Store) -> None:
    later = AFTER + 7 * DAY
    rows = [used("a", BEFORE.timestamp()), used("b", BEFORE.timestamp())]
    rows += [used("a", AFTER.timestamp()), *(used("a", later.timestamp() + n) for n in range(3))]
    await write(store, rows)
    query = DifferenceQuery(
        since=later, until=later + DAY, against_since=BEFORE, filters={Label.ACCOUNT: "a"}
    )
    (row,) = (await compared(store, query)).rows
    assert row.labels == {"account": "a", "workflow": ""}
    price = row.parts_nanousd.price
    assert row.parts_nanousd.volume == row.change_nanousd - price > price > 0
    assert row.why.startswith("requests 1 → 3")
    none = await compared(store, msgspec.structs.replace(query, filters={Label.WORKFLOW: "x"}))
    assert (none.rows, none.total.change_nanousd, none.total.why) == ([], 0, "")


async def test_models_that_the_catalogue_does_not_know_or_prices_lower(store: Store) -> None:
    gone, dear = "@cf/test/gone", Prices(10**9, 10**9, 10**9)
    at = BEFORE.timestamp(), AFTER.timestamp()
    rows = [used("a", time, workflow="w", model=gone) for time in (at[0], at[1], at[1] + 1)]
    price = PriceBook([model(ONE, dear)]).price(ModelId(ONE), Tier.NOW, at[1])
    rows.append(attempt("b", asked_at=at[1], price=price))
    await write(store, rows)
    answer = await compared(store)
    assert (answer.unpriced_models, answer.dearer_models) == ([gone], [ONE])
    row = next(row for row in answer.rows if row.labels["account"] == "a")
    assert row.parts_nanousd.volume == row.change_nanousd > 0


async def test_a_period_is_limited(store: Store) -> None:
    reports = UsageReports(store, MeteringSettings(report_days_max=1))
    long = DifferenceQuery(since=AFTER, until=AFTER + 2 * DAY, against_since=BEFORE - DAY)
    with pytest.raises(errors.InvalidRequest, match="1 days"):
        await reports.difference(long, BOOK)


def test_only_hourly_sums_are_read(dsn: str) -> None:
    statement = difference_statement(QUERY, BOOK, 200)
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "explain (format json) " + statement.sql, statement.params
        ).fetchone()
    assert found is not None
    assert set(_tables(found[0][0]["Plan"])) == {"usage_hours"}


def _tables(plan: dict[str, Any]) -> Iterable[str]:
    if "Relation Name" in plan:
        yield plan["Relation Name"]
    for child in plan.get("Plans", []):
        yield from _tables(child)


def _is_sum(total: DifferenceRow, rows: list[DifferenceRow]) -> None:
    for name, part in parts_of(total).items():
        assert part == sum(parts_of(row)[name] for row in rows)
    assert total.change_nanousd == sum(row.change_nanousd for row in rows)
