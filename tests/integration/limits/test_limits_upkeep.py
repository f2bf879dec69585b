"""What a worker does beside answering: renewing, sweeping, bounding, and never in anybody's way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import LiteralString

import msgspec
import pytest
from tests.integration.cells.limits_cell import (
    SETTINGS,
    a_limit,
    account_with,
    book,
    eventually,
    granted,
    request,
    set_limit,
    settled,
    working,
)

from penstock import errors
from penstock.admission import LimitBook, Limits, list_holders, release_holder
from penstock.admission.counted_limit import CountedLimit
from penstock.admission.window_balances import WindowBalances
from penstock.app.limit_events import publish_notices
from penstock.clock import SystemClock, new_id
from penstock.records.limit import Measure, Period, Scope
from penstock.store import Store

# What is asked for is kept; only a few balances are, and they are seen to a few at a time.
FEW = msgspec.structs.replace(SETTINGS, pots_max=5, pots_batch_max=7)
LABELS = ["nightly/build", "*", "ü", "a\0b", "\ud800x", "' or 1=1 --"]


@asynccontextmanager
async def held(store: Store, table: LiteralString) -> AsyncIterator[None]:
    """Nobody else gets to this table meanwhile."""
    async with store.transaction() as transaction:
        await transaction.execute("lock table " + table + " in access exclusive mode")
        yield


async def write_leases(store: Store, limits: Limits, limit: int, count: int, ago: str) -> None:
    """Leases of values that the worker knows nothing of any more, in a window of that time."""
    async with store.transaction() as transaction:
        await transaction.execute(
            "insert into leases select id, 'old-' || n,"
            " date_trunc(period, now() - %s::interval, 'UTC'), %s::uuid, 5"
            " from limits, generate_series(1, %s) n where id = %s",
            (ago, limits._holder, count, limit),
        )


async def test_leases_of_ended_windows_go_though_their_balances_are_forgotten(store: Store) -> None:
    account = await account_with(store)
    each = a_limit(50, scope=Scope.SESSION, value="*", period=Period.DAY)
    limit = await set_limit(store, account, each)
    async with working(store, FEW) as limits:
        await limits.lease(request(account, session="s", tokens=1))
        await write_leases(store, limits, limit.id, 30, "2 days")
        await write_leases(store, limits, limit.id, 1, "0 days")
        # In pieces of 7; what of this window nobody has spent stays charged.
        await settled(store, 1 + 5)


async def test_leases_that_are_wholly_spent_and_booked_go_and_nothing_changes(
    store: Store,
) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(30, scope=Scope.SESSION, value="*"))
    async with working(store, FEW) as limits:
        sessions = [f"s{number}" for number in range(20)]
        for session in sessions:
            hold = await limits.lease(request(account, session=session))
            hold.settle(requests=1, tokens=10, nanousd=0)
        await eventually(lambda: len(limits._balances) <= FEW.pots_max)
        await settled(store, 200)
        for session in sessions[1:]:
            await book(store, limits, limit.id, 10, session)
        await settled(store, 10)
        for session in sessions:
            await limits.lease(request(account, session=session, tokens=20))
            with pytest.raises(errors.QuotaSpent):
                await limits.lease(request(account, session=session, tokens=1))


async def test_renewing_costs_the_same_however_many_leases_there_are(store: Store) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(50, scope=Scope.SESSION, value="*"))
    limits = Limits(store, SystemClock(), SETTINGS, new_id(), publish_notices)
    await limits._desk.renew()
    await write_leases(store, limits, limit.id, 500, "0 days")
    async with store.transaction() as transaction:
        before = await transaction.fetch("select xmin::text from leases")
    await limits._desk.renew()
    async with store.transaction() as transaction:
        assert await transaction.fetch("select xmin::text from leases") == before
    (holder,) = await list_holders(store)
    assert (holder.leases, holder.is_expired) == (500, False)


async def test_a_worker_that_writes_after_a_release_learns_of_it_at_once(store: Store) -> None:
    account = await account_with(store, a_limit(1000), a_limit(500, Measure.REQUESTS))
    async with working(store) as limits:
        first = await limits.lease(request(account, tokens=600))
        async with store.transaction() as transaction:
            assert await release_holder(transaction, limits._holder) == 2
        # It asks for more long before it would renew, and is granted what is left beside what runs.
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account, tokens=401))
        second = await limits.lease(request(account, tokens=400))
        assert len(await list_holders(store)) == 1
        first.settle(requests=1, tokens=600, nanousd=0)
        second.settle(requests=1, tokens=400, nanousd=0)
        await settled(store, 1000 + 2)


async def test_a_release_waits_for_a_lease_that_is_being_written(store: Store) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(1000, scope=Scope.SESSION, value="*"))
    async with working(store) as limits, asyncio.TaskGroup() as tasks:
        await limits.lease(request(account, session="one"))
        async with store.transaction() as writing:
            balance = WindowBalances().find(CountedLimit(limit, "another"), SystemClock().now())
            await limits._desk._leases.write(writing, [(balance, 70)])
            releasing = tasks.create_task(_release(store, limits))
            await asyncio.sleep(0.2)
            assert not releasing.done()
        assert await releasing == 2


async def _release(store: Store, limits: Limits) -> int:
    async with store.transaction() as transaction:
        return await release_holder(transaction, limits._holder)


async def test_upkeep_that_takes_long_lets_nobody_pass_a_limit(store: Store) -> None:
    account = await account_with(store, a_limit(10))
    brief = msgspec.structs.replace(SETTINGS, lease_wait_seconds=1)
    async with working(store, brief) as limits:
        hold = await limits.lease(request(account))
        failed = limits.failures
        async with held(store, "limits_revision"):
            await asyncio.sleep(0.3)
            # The loop waits for limits that have changed. It gives way, and the limit is asked.
            for _ in range(3):
                with pytest.raises(errors.QuotaSpent):
                    await limits.lease(request(account))
            assert limits.failures > failed
        assert limits.beyond_leases == 0
        hold.settle(requests=0, tokens=0, nanousd=0)
        await settled(store, 0)
        await limits.lease(request(account))


async def test_a_lease_that_gets_no_answer_says_that_postgres_is_away(store: Store) -> None:
    account = await account_with(store, a_limit(10))
    brief = msgspec.structs.replace(SETTINGS, lease_wait_seconds=0.5, pots_survey_seconds=60)
    async with working(store, brief) as limits:
        await limits.lease(request(account))
        async with held(store, "leases"), asyncio.timeout(5):
            await limits.lease(request(account))
            assert limits.beyond_leases == 1
            assert limits._queue.is_away
        await eventually(lambda: not limits._queue.is_away)


async def test_a_bug_in_upkeep_lets_nobody_pass_a_limit(store: Store) -> None:
    account = await account_with(store, a_limit(10))
    async with working(store) as limits:
        await limits.lease(request(account))
        async with store.transaction() as transaction:
            await transaction.execute("alter table limits_revision rename to elsewhere")
        await eventually(lambda: limits.failures >= 2)
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account))
        assert limits.beyond_leases == 0


@pytest.mark.parametrize("is_hard", [True, False])
@pytest.mark.parametrize("scope", [Scope.WORKFLOW, Scope.SESSION])
async def test_arbitrary_labels_are_bounded_in_memory(
    store: Store, scope: Scope, is_hard: bool
) -> None:
    each = a_limit(10, Measure.REQUESTS, scope=scope, value="*", is_hard=is_hard)
    account = await account_with(store, each)
    async with working(store, FEW) as limits:
        for label in (*LABELS, *(f"label-{number}" for number in range(100))):
            made = request(account, **{scope.value: label})  # type: ignore[arg-type] # never `tokens`
            hold = limits.reserve(made) or await limits.lease(made)
            hold.settle(requests=1, tokens=1, nanousd=0)
        await eventually(lambda: len(limits._balances) <= FEW.pots_max)
        assert await granted(store) in ((106,) if is_hard else (0,))
        (state,) = await LimitBook(store, SETTINGS).list(account)
        assert state.leased == int(is_hard)


async def test_refused_requests_leave_no_balances(store: Store) -> None:
    account = await account_with(store, a_limit(0, scope=Scope.SESSION, value="*"))
    never = msgspec.structs.replace(SETTINGS, pots_survey_seconds=60)
    async with working(store, never) as limits:
        for number in range(100):
            with pytest.raises(errors.QuotaSpent):
                await limits.lease(request(account, session=f"s{number}"))
        assert len(limits._balances) == 0
