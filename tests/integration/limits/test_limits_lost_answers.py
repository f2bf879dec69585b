"""What becomes of leases when the asker leaves, or Postgres' last word gets lost."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.integration.cells.limits_cell import (
    SETTINGS,
    a_limit,
    account_with,
    eventually,
    granted,
    request,
    settled,
    working,
)

from penstock import errors
from penstock.admission import Limits
from penstock.app.limit_events import publish_notices
from penstock.clock import SystemClock, new_id
from penstock.store import Store

# Nothing but leases is asked about while a test holds the table.
QUIET = msgspec.structs.replace(SETTINGS, pots_survey_seconds=60)
FAIL_AT_COMMIT = """
    create function fail() returns trigger language plpgsql as $$
    begin raise exception 'at commit' using errcode = '25006'; end $$;
    create constraint trigger fails after insert or update on leases
        deferrable initially deferred for each row execute function fail();
"""


@asynccontextmanager
async def leases_locked(store: Store) -> AsyncIterator[None]:
    """Nobody else reads or writes a lease meanwhile."""
    async with store.transaction() as transaction:
        await transaction.execute("lock table leases in access exclusive mode")
        yield


async def has_begun(store: Store) -> None:
    """Until the worker has said that it lives, before which it writes no lease."""
    async with asyncio.timeout(10):
        while True:
            async with store.transaction() as transaction:
                if await transaction.fetch("select 1 from lease_holders"):
                    return
            await asyncio.sleep(0.01)


async def waiting_lease(
    tasks: asyncio.TaskGroup, limits: Limits, account: str, tokens: int
) -> asyncio.Task[object]:
    """One that has begun to ask Postgres."""
    before = limits.lease_round_trips
    task: asyncio.Task[object] = tasks.create_task(limits.lease(request(account, tokens=tokens)))
    await eventually(lambda: limits.lease_round_trips > before)
    return task


async def test_one_that_leaves_while_postgres_decides_holds_nothing(store: Store) -> None:
    account = await account_with(store, a_limit(10))
    async with working(store, QUIET) as limits, asyncio.TaskGroup() as tasks:
        await has_begun(store)
        async with leases_locked(store):
            (await waiting_lease(tasks, limits, account, 10)).cancel()
        # What was granted to nobody is given back.
        await settled(store, 10)
        await settled(store, 0)
        async with leases_locked(store):
            (await waiting_lease(tasks, limits, account, 11)).cancel()
        await limits.lease(request(account, tokens=10))
        assert not limits.refusals


async def test_one_that_left_is_not_missed_when_postgres_fails_then(store: Store) -> None:
    account = await account_with(store, a_limit(10))
    async with working(store, QUIET) as limits, asyncio.TaskGroup() as tasks:
        await has_begun(store)
        async with leases_locked(store):
            (await waiting_lease(tasks, limits, account, 10)).cancel()
            async with store.transaction() as transaction:
                await transaction.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where wait_event_type = 'Lock' and datname = current_database()"
                )
            await eventually(lambda: limits.failures == 1)
        await eventually(lambda: not limits._queue.is_away)
        await limits.lease(request(account, tokens=10))


async def test_a_grant_that_may_not_have_been_committed_is_not_counted_upon(store: Store) -> None:
    account = await account_with(store, a_limit(1000))
    async with working(store) as limits:
        async with store.transaction() as transaction:
            await transaction.execute(FAIL_AT_COMMIT)
        with pytest.raises(errors.StoreUnavailable):
            await limits.lease(request(account, on_outage_refuse=True))
        assert limits.reserve(request(account)) is None
        async with store.transaction() as transaction:
            await transaction.execute("drop trigger fails on leases")
        await eventually(lambda: not limits._queue.is_away)
        assert await granted(store) == 0
        await limits.lease(request(account, on_outage_refuse=True))
        assert await granted(store) == 20


async def test_an_answer_at_the_last_moment_counts(store: Store) -> None:
    account = await account_with(store, a_limit(1000))
    limits = Limits(store, SystemClock(), SETTINGS, new_id(), publish_notices)
    await limits.load()
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(limits.lease(request(account)))
        await asyncio.sleep(0)
        demand = limits._queue._waiting[0]
        # The answer and the end of the wait come in the same turn of the event loop.
        asyncio.get_running_loop().call_soon(demand.answer.set_result, None)
        time.sleep(SETTINGS.lease_wait_seconds + 0.1)  # noqa: ASYNC251 - it must not turn
    assert asking.result().limits
    assert limits.beyond_leases == 0


async def test_one_that_leaves_just_when_it_is_granted_gives_it_up(store: Store) -> None:
    account = await account_with(store, a_limit(1000))
    limits = Limits(store, SystemClock(), SETTINGS, new_id(), publish_notices)
    await limits.load()
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(limits.lease(request(account)))
        await asyncio.sleep(0)
        demand = limits._queue._waiting[0]
        balance = demand.amounts[0].balance
        balance.reserve(10)
        demand.answer.set_result(None)
        asking.cancel()
    assert asking.cancelled()
    assert balance.reserved == 0
