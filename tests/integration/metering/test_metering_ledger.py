"""The ledger on a real Postgres: a row once, its sums once, whoever writes and however often."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from tests.integration.cells.metering_lines import (
    NOON,
    SUMS,
    USAGE,
    add_limit,
    added_up,
    attempts,
    hours,
    id_at,
    line,
    spent,
)

from penstock.clock import new_id
from penstock.metering import Ledger, MeteringSettings, Refusals, Retention
from penstock.metering.journal_reader import Row
from penstock.records.request import Outcome
from penstock.records.usage import Usage
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock

MIDNIGHT = NOON + 12 * 3600


async def test_journal_replayed_three_times_adds_nothing(store: Store) -> None:
    limits = (
        await add_limit(store, "account", "nanousd", "month"),
        await add_limit(store, "session", "tokens", "day"),
        await add_limit(store, "key", "requests", "minute"),
    )
    rows = [line(limits=limits, session=f"s{n % 3}", at=NOON + n) for n in range(40)]
    holder = new_id()
    ledger = Ledger(store, 1000)
    assert await ledger.write(holder, rows) == 40
    before = (await attempts(store), await hours(store), await spent(store))
    assert await ledger.write(holder, rows) == 0
    assert await Ledger(store, 1000).write(holder, rows[::-1]) == 0
    assert await Ledger(store, 1000).write(new_id(), [*rows[5:], line(at=NOON)]) == 1
    after = (await attempts(store), await hours(store), await spent(store))
    assert len(after[0]) == 41
    assert after[2] == before[2]
    by_limit = Counter[int]()
    for each in after[2]:
        by_limit[each["limit_id"]] += each["amount"]
    charge = before[0][0]["charge_nanousd"]
    assert by_limit == {limits[0]: 40 * charge, limits[1]: 40 * 1050, limits[2]: 40}


async def test_attempt_that_comes_twice_in_one_batch_counts_once(store: Store) -> None:
    limit = await add_limit(store, "account", "tokens", "day")
    row = line(limits=(limit,))
    assert await Ledger(store, 10).write(new_id(), [row, row, row]) == 1
    (hour,), (amount,) = await hours(store), await spent(store)
    assert (hour["attempts"], amount["amount"]) == (1, 1050)


async def test_second_attempt_is_a_row_but_no_second_request(store: Store) -> None:
    limit = await add_limit(store, "account", "requests", "day")
    request = id_at(NOON)
    rows = [
        line(id=request, attempt=1, usage=None, outcome=Outcome.FAILED, limits=(limit,)),
        line(id=request, attempt=2, limits=(limit,)),
    ]
    await Ledger(store, 10).write(new_id(), rows)
    (hour,), (amount,) = await hours(store), await spent(store)
    assert (hour["requests"], hour["attempts"], hour["ok"], hour["failed"]) == (1, 2, 1, 1)
    assert amount["amount"] == 1


async def test_row_is_of_the_day_and_hour_in_its_id(store: Store) -> None:
    times = (MIDNIGHT - 0.001, MIDNIGHT, MIDNIGHT + 0.001, MIDNIGHT + 86399.999)
    await Ledger(store, 10).write(new_id(), [line(at=at) for at in times])
    days = [row["day"] for row in await attempts(store)]
    assert days == ["2026-11-10", "2026-11-11", "2026-11-11", "2026-11-11"]
    found = {hour["hour"][:13]: hour["attempts"] for hour in await hours(store)}
    assert len(found) == 3
    assert sorted(found.values()) == [1, 1, 2]


async def test_clock_that_stood_at_1970_makes_one_day_and_not_all_between(store: Store) -> None:
    await Ledger(store, 10).write(new_id(), [line(at=5.0), line(at=NOON), line(at=0.0)])
    assert len(await attempts(store)) == 3
    async with store.transaction() as transaction:
        count = await transaction.fetch_one(
            "select count(*) from pg_inherits where inhparent = 'usage_attempts'::regclass"
        )
    assert count is not None
    assert count[0] <= 3


async def test_unknown_is_null_in_the_row_and_in_no_hit_ratio(store: Store) -> None:
    rows = [line(usage=None), line(usage=Usage(10, 5)), line(usage=Usage(10, 5, 0))]
    await Ledger(store, 10).write(new_id(), rows)
    found = [(row["prompt_tokens"], row["cached_tokens"]) for row in await attempts(store)]
    assert found == [(None, None), (10, None), (10, 0)]
    (hour,) = await hours(store)
    assert (hour["prompt_tokens"], hour["prompt_tokens_known"]) == (20, 10)


def made_up(chosen: random.Random) -> dict[str, Any]:
    cached = chosen.choice([None, 0, 70])
    usage = chosen.choice([None, Usage(chosen.randrange(100, 5000), chosen.randrange(900), cached)])
    return {
        "at": MIDNIGHT + chosen.uniform(-7200, 7200),
        "account": chosen.choice(["acme", "other"]),
        "key": chosen.choice(["k1", "k2"]),
        "workflow": chosen.choice(["", "w1", "w2", "w3", "w4"]),
        "client_retry": chosen.choice([None, 0, 2]),
        "usage": usage,
        "outcome": chosen.choice(list(Outcome)),
    }


@pytest.mark.parametrize("seed", range(3))
async def test_sums_are_those_of_the_rows_when_many_drain_at_once(store: Store, seed: int) -> None:
    """Each batch goes to two of six drains: all meet in the same sums, in any order."""
    chosen = random.Random(seed)
    ledgers = [Ledger(store, 3) for _ in range(6)]
    holders = [new_id() for _ in ledgers]
    batches = [[line(**made_up(chosen)) for _ in range(chosen.randrange(1, 30))] for _ in range(30)]
    queues: list[list[list[Row]]] = [[] for _ in ledgers]
    for batch in batches:
        for queue in chosen.sample(queues, 2):
            queue.append(chosen.sample(batch, len(batch)))

    async def drain(ledger: Ledger, holder: str, queue: list[list[Row]]) -> int:
        return sum([await ledger.write(holder, rows) for rows in queue])

    written = await asyncio.gather(
        *(drain(*each) for each in zip(ledgers, holders, queues, strict=True))
    )
    rows = await attempts(store)
    assert len(rows) == sum(len(batch) for batch in batches) == sum(written)
    found = await hours(store)
    assert {name: sum(hour[name] for hour in found) for name in SUMS} == added_up(rows)
    labels = ("account", "key", "workflow")
    for hour in found:
        same = [
            row
            for row in rows
            if all(row[name] == hour[name] for name in labels)
            and row["asked_at"][:13] == hour["hour"][:13]
        ]
        assert {name: hour[name] for name in SUMS} == added_up(same)
        assert sum(hour["first_token"]) == sum(row["first_token_ms"] is not None for row in same)
    async with store.transaction() as transaction:
        names = await transaction.fetch("select account, count(*) from workflow_names group by 1")
    assert dict(names) == {"acme": 3, "other": 3}
    for account in ("acme", "other"):
        used = {row["workflow"] for row in rows if row["account"] == account} - {"", "other"}
        assert len(used) <= 3


async def test_names_up_to_the_cap_are_kept_and_others_are_other(store: Store) -> None:
    async def write(names: list[str]) -> None:
        rows = [line(workflow=name) for name in names]
        await Ledger(store, 5).write(new_id(), rows)

    # What a worker calls `other` already takes no name's place.
    await write(["other", "", "other"])
    await asyncio.gather(*(write([f"w{n}", f"w{n + 1}"]) for n in range(10)))
    async with store.transaction() as transaction:
        names = {row[0] for row in await transaction.fetch("select name from workflow_names")}
    assert len(names) == 5
    assert "other" not in names
    await write([f"w{n}" for n in range(11)])
    rows = (await attempts(store))[-11:]
    assert {row["workflow"] for row in rows} == names | {"other"}


async def test_limit_on_a_workflow_counts_by_the_name_that_was_sent(store: Store) -> None:
    limit = await add_limit(store, "workflow", "tokens", "day")
    rows = [line(workflow=f"w{n}", limits=(limit,)) for n in range(4)]
    await Ledger(store, 1).write(new_id(), rows)
    assert {each["value"] for each in await spent(store)} == {"w0", "w1", "w2", "w3"}


@pytest.mark.parametrize(
    "label",
    ["tab\there", "line\nbreak\r\n", "nul\0nul", "\\", "\\N", "\\.", "🌊 日本", "\ud800", "a" * 256,
     "'; drop table usage_attempts; --", "{1,2}", '"', "\u2028", "\x7f\x85"],
)  # fmt: skip
async def test_no_label_poisons_a_batch(store: Store, label: str) -> None:
    rows = [line(session=label, caller_request_id=label, workflow=label), line(session="good")]
    assert await Ledger(store, 10).write(new_id(), rows) == 2
    found = (await attempts(store))[0]
    expected = label.replace("\0", "").encode("utf-8", "replace").decode()
    assert found["session"] == found["caller_request"] == found["workflow"] == expected


async def test_refusals_are_added_up_by_minute_account_key_and_reason(store: Store) -> None:
    workers = [Refusals(store, 3) for _ in range(2)]
    for refusals in workers:
        for at in (0.0, 59.9, 60.0):
            refusals.count(at, "acme", "k", "rate_limited")
        refusals.count(0.0, "", "", "unauthenticated")
        for number in range(5):
            refusals.count(0.0, f"a{number}", "k", "rate_limited")
    await asyncio.gather(*(refusals.flush() for refusals in workers))
    for refusals in workers:
        assert refusals.waiting() == 0
        await refusals.flush()
    async with store.transaction() as transaction:
        rows = await transaction.fetch(
            "select extract(epoch from minute)::int, account, key, reason, count"
            " from usage_refusals order by 1, 2"
        )
    assert rows == [
        (0, "", "", "unauthenticated", 2),
        (0, "acme", "k", "rate_limited", 4),
        # Beyond the bound they are counted together.
        (0, "other", "other", "rate_limited", 10),
        (60, "acme", "k", "rate_limited", 2),
    ]


async def test_refusal_during_a_flush_waits_for_the_next(store: Store) -> None:
    refusals = Refusals(store, 10)
    refusals.count(0.0, "a", "k", "r")
    async with asyncio.TaskGroup() as group:
        group.create_task(refusals.flush())
        await asyncio.sleep(0)
        refusals.count(0.0, "a", "k", "r")
    await refusals.flush()
    assert refusals.waiting() == 0
    async with store.transaction() as transaction:
        assert await transaction.fetch_one("select count from usage_refusals") == (2,)


async def test_only_what_is_older_than_it_is_kept_for_is_dropped(store: Store) -> None:
    clock = ManualClock(now=NOON)
    day = 86400
    ages = (0, 1, 9, 10, 11, 40)
    limits = [await add_limit(store, "account", "tokens", each) for each in ("minute", "month")]
    rows = [line(at=NOON - age * day, limits=tuple(limits)) for age in (*ages, 70)]
    ledger = Ledger(store, 10)
    await ledger.write(new_id(), rows)
    refusals = Refusals(store, 10)
    for age in ages:
        refusals.count(NOON - age * day, "a", "k", "r")
    await refusals.flush()
    retention = Retention(store, clock, MeteringSettings(ledger_days=10, rollup_days=30))
    # A day's partition is there for each of the rows; 11, 40 and 70 days are too old.
    assert await retention.drop_old() >= 3
    assert len(await attempts(store)) == 4
    assert len(await hours(store)) == 5
    # Two of the minutes; of the months October and November, for September's is 70 days old.
    assert [row["limit_id"] for row in await spent(store)] == [limits[0]] * 2 + [limits[1]] * 2
    async with store.transaction() as transaction:
        assert await transaction.fetch_one("select count(*) from usage_refusals") == (5,)
    assert await retention.drop_old() == 0
    # A day that comes back from a host that was away is made again.
    assert await ledger.write(new_id(), [line(at=NOON - 40 * day)]) == 1


async def test_charge_of_a_row_can_be_calculated_again_from_the_row(store: Store) -> None:
    await Ledger(store, 10).write(new_id(), [line(usage=USAGE)])
    (row,) = await attempts(store)
    uncached = row["prompt_tokens"] - row["cached_tokens"]
    total = (
        uncached * row["input_nanousd_per_mtok"]
        + row["cached_tokens"] * row["cached_input_nanousd_per_mtok"]
        + row["output_tokens"] * row["output_nanousd_per_mtok"]
    ) * row["multiplier_bp"]
    assert row["charge_nanousd"] == (total + 5 * 10**9) // 10**10
    (hour,) = await hours(store)
    assert hour["saved_nanousd"] == 100 * (600 - 150)


async def test_old_days_are_dropped_by_the_loop_and_an_outage_does_not_end_it(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await Ledger(store, 10).write(new_id(), [line(at=NOON - 50 * 86400), line()])
    nowhere = Store(StoreSettings(dsn="host=127.0.0.1 port=1", acquire_seconds=0.1))
    await nowhere.open()
    settings = MeteringSettings(ledger_days=10)
    async with asyncio.TaskGroup() as group:
        loops = [
            group.create_task(Retention(each, ManualClock(now=NOON), settings).run())
            for each in (store, nowhere)
        ]
        async with asyncio.timeout(20):
            while True:
                waits = any(record.msg == "old usage not dropped" for record in caplog.records)
                if waits and len(await attempts(store)) == 1:
                    break
                await asyncio.sleep(0.02)
        assert not any(loop.done() for loop in loops)
        for loop in loops:
            loop.cancel()
    await nowhere.close()
