"""A job's charge on a real Postgres: once, whether the drain comes before, after or meanwhile."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest
from tests.integration.cells.job_attempts import FLEX_PRICE, job_attempt
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
from penstock.metering import JobCharge, Ledger, charge
from penstock.metering.bill import JOB
from penstock.metering.journal_reader import Row
from penstock.metering.queries import QUERIES
from penstock.records.limit import FLEX_HOLDER
from penstock.records.price import cost_nanousd
from penstock.records.request import Outcome
from penstock.records.usage import Usage
from penstock.store import Store

COST = cost_nanousd(USAGE, FLEX_PRICE)
# 100 cached tokens at half of (0.60 - 0.15) dollars a million.
SAVED = 100 * 450_000_000 // 2 // 10**6
T = TypeVar("T")


async def complete(store: Store, *charges: JobCharge) -> None:
    """What a completion does about charges, without its queue."""
    ledger = Ledger(store, 10)
    await ledger.make_days([each.line for each in charges])
    async with store.transaction() as transaction:
        await charge(transaction, ledger, charges)


async def state(store: Store) -> tuple[Any, Any, Any]:
    return await attempts(store), await hours(store), await spent(store)


Step = Callable[[Store, Row, JobCharge], Awaitable[object]]


def drain(store: Store, drained: Row, _: JobCharge) -> Awaitable[object]:
    return Ledger(store, 10).write(new_id(), [drained])


def finish(store: Store, _: Row, charged: JobCharge) -> Awaitable[object]:
    return complete(store, charged)


@pytest.mark.parametrize(
    "steps",
    [(drain, finish), (finish, drain), (drain, drain, finish, drain), (finish, drain, finish)],
    ids=["drain first", "drain later", "journal replayed three times", "completed twice"],
)
async def test_job_is_charged_once_in_any_order(store: Store, steps: Sequence[Step]) -> None:
    limit = await add_limit(store, "account", "nanousd", "month")
    drained, charged = job_attempt(limits=(limit,), workflow="w")
    for step in steps:
        await step(store, drained, charged)
    (row,), (hour,), (booked,) = await state(store)
    assert (row["charge_nanousd"], row["charge_reason"], row["tier"]) == (COST, "", "flex")
    assert {name: hour[name] for name in SUMS} == added_up([row])
    assert (hour["charge_nanousd"], hour["saved_nanousd"]) == (COST, SAVED)
    assert (booked["amount"], booked["holder"]) == (COST, FLEX_HOLDER)


async def test_drained_attempts_of_a_job_are_free_until_it_is_finished(store: Store) -> None:
    id = id_at(NOON)
    lost, _ = job_attempt(id=id, attempt=1, usage=None, outcome=Outcome.INTERRUPTED)
    again, _ = job_attempt(id=id, attempt=2)
    drained, charged = job_attempt(id=id, attempt=3)
    await Ledger(store, 10).write(new_id(), [lost, again, drained])
    rows, (hour,), _ = await state(store)
    assert [row["charge_reason"] for row in rows] == ["", JOB, JOB]
    assert (hour["charge_nanousd"], hour["saved_nanousd"], hour["requests"]) == (0, 0, 1)
    await complete(store, charged)
    rows, (hour,), _ = await state(store)
    assert [row["charge_nanousd"] for row in rows] == [0, 0, COST]
    assert [row["charge_reason"] for row in rows] == ["", JOB, ""]
    assert (hour["charge_nanousd"], hour["saved_nanousd"]) == (COST, SAVED)
    assert (hour["attempts"], hour["ok"], hour["requests"]) == (3, 2, 1)


async def test_attempt_that_the_engine_did_not_count_is_free(store: Store) -> None:
    drained, charged = job_attempt(usage=None)
    await complete(store, charged)
    await Ledger(store, 10).write(new_id(), [drained])
    (row,), (hour,), _ = await state(store)
    assert (row["charge_nanousd"], row["prompt_tokens"], hour["attempts"]) == (0, None, 1)


async def test_charge_waits_for_a_drain_that_has_the_row_and_then_adds_to_it(store: Store) -> None:
    drained, charged = job_attempt()
    ledger = Ledger(store, 10)
    await ledger.make_days([drained])
    async with asyncio.TaskGroup() as group, store.transaction() as transaction:
        await ledger.stage(transaction, [drained])
        await transaction.fetch_one(QUERIES["add"], (new_id(),))
        completing = group.create_task(complete(store, charged))
        await wait_for_lock(store)
        assert not completing.done()
    (row,), (hour,), _ = await state(store)
    assert (row["charge_nanousd"], hour["charge_nanousd"], hour["attempts"]) == (COST, COST, 1)
    assert hour["saved_nanousd"] == SAVED


@pytest.mark.parametrize("is_committed", [True, False])
async def test_drain_waits_for_a_completion_that_has_the_row(
    store: Store, is_committed: bool
) -> None:
    drained, charged = job_attempt()
    ledger = Ledger(store, 10)
    await ledger.make_days([drained])
    async with asyncio.TaskGroup() as group:
        with contextlib.suppress(ZeroDivisionError):
            async with store.transaction() as transaction:
                await charge(transaction, ledger, [charged])
                draining = group.create_task(Ledger(store, 10).write(new_id(), [drained]))
                await wait_for_lock(store)
                assert not draining.done()
                # Whatever goes wrong after the charge undoes it.
                assert 1 / is_committed
    (row,), (hour,), _ = await state(store)
    expected = COST if is_committed else 0
    assert row["charge_nanousd"] == hour["charge_nanousd"] == expected
    assert (row["charge_reason"] == JOB) is not is_committed
    assert hour["attempts"] == 1


async def wait_for_lock(store: Store) -> None:
    """Until somebody waits for a row that another has written."""
    async with asyncio.timeout(10):
        while True:
            async with store.transaction() as transaction:
                row = await transaction.fetch_one(
                    "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
                )
            if row is not None and row[0]:
                return
            await asyncio.sleep(0.01)


async def test_charge_counts_for_each_of_its_limits_by_whom_it_is_on(store: Store) -> None:
    limits = tuple(
        [
            await add_limit(store, scope, "nanousd", "day")
            for scope in ("account", "key", "workflow", "session")
        ]
    )
    facts: dict[str, Any] = {"limits": limits, "key": "k", "workflow": "w", "session": "s"}
    charges = [job_attempt(at=NOON + n, **facts)[1] for n in range(3)]
    other = job_attempt(at=NOON + 86_400, limits=limits[:1])[1]
    # A name beyond the account's is `other` in the sums, not in its own limit.
    await Ledger(store, 10).write(new_id(), [line(workflow=f"w{n}") for n in range(10)])
    await complete(store, *charges, other)
    found = {(each["limit_id"], each["value"]): each["amount"] for each in await spent(store)}
    names = ("k", "w", "s")
    assert found == {(limits[0], ""): COST} | {
        (limit, name): 3 * COST for limit, name in zip(limits[1:], names, strict=True)
    }
    account = [each["amount"] for each in await spent(store) if each["limit_id"] == limits[0]]
    assert sorted(account) == [COST, 3 * COST]


async def test_nothing_to_charge_asks_nobody(store: Store) -> None:
    await complete(store)
    assert await state(store) == ([], [], [])


def made_up(chosen: random.Random, limit: int) -> dict[str, Any]:
    cached = chosen.choice([None, 0, 70])
    usage = Usage(chosen.randrange(100, 5000), chosen.randrange(900), cached)
    return {
        "at": NOON + chosen.uniform(-3600, 3600),
        "account": chosen.choice(["acme", "other"]),
        "key": chosen.choice(["k1", "k2"]),
        "workflow": chosen.choice(["", "w1", "w2", "w3", "w4"]),
        "usage": chosen.choice([None, usage, usage, usage]),
        "attempt": chosen.choice([1, 1, 2, 7]),
        "limits": (limit,),
    }


@pytest.mark.parametrize("seed", range(4))
async def test_sums_are_those_of_the_rows_when_drains_and_completions_meet(
    store: Store, seed: int
) -> None:
    """Attempts go to two of four drains and one of four completers, in batches, all at once."""
    chosen = random.Random(seed)
    limit = await add_limit(store, "account", "nanousd", "month")
    jobs = [job_attempt(**made_up(chosen, limit)) for _ in range(400)]
    is_finished = [chosen.random() < 0.8 for _ in jobs]

    async def drain_all() -> None:
        ledger, rows = Ledger(store, 3), [drained for drained, _ in jobs]
        for batch in batches(chosen, rows[: len(rows) // 2]):
            await ledger.write(new_id(), batch)
        for batch in batches(chosen, rows):
            await ledger.write(new_id(), batch)

    async def complete_some(charges: list[JobCharge]) -> None:
        for batch in batches(chosen, charges):
            await complete(store, *batch)

    finished = [job for job, is_done in zip(jobs, is_finished, strict=True) if is_done]
    parts = [[charged for _, charged in finished[n::4]] for n in range(4)]
    await asyncio.gather(drain_all(), drain_all(), *(complete_some(part) for part in parts))
    rows, found, booked = await state(store)
    assert len(rows) == len(jobs)
    assert {name: sum(hour[name] for hour in found) for name in SUMS} == added_up(rows)
    charges = {row["request"]: row["charge_nanousd"] for row in rows if row["charge_reason"] == ""}
    wanted = Counter[str]()
    for _, charged in finished:
        wanted[charged.request] += int(charged.line.split(b"\t")[-2])
    assert +Counter(charges) == +wanted
    assert sum(each["amount"] for each in booked) == wanted.total()
    for hour in found:
        same = [
            row
            for row in rows
            if all(row[name] == hour[name] for name in ("account", "key", "workflow"))
            and row["asked_at"][:13] == hour["hour"][:13]
        ]
        assert {name: hour[name] for name in SUMS} == added_up(same)
        assert hour["saved_nanousd"] == sum(map(saved_by, same))


def batches(chosen: random.Random, items: Sequence[T]) -> list[list[T]]:
    shuffled = chosen.sample(items, len(items))
    size = chosen.randrange(5, 40)
    return [shuffled[start : start + size] for start in range(0, len(shuffled), size)]


def saved_by(row: dict[str, Any]) -> int:
    if row["charge_reason"] or row["cached_tokens"] is None:
        return 0
    cached: int = row["cached_tokens"]
    return round(cached * 450_000_000 * 5000 / 10**10)
