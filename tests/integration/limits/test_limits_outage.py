"""Limits while Postgres is really stopped: inside the leases, beyond them, and afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.integration.cells.limits_cell import (
    SETTINGS,
    a_limit,
    account_with,
    eventually,
    granted,
    request,
    set_limit,
    settled,
    working,
)

from penstock import errors
from penstock.admission import Limits
from penstock.app.limit_events import publish_notices
from penstock.clock import SystemClock, new_id
from penstock.records.limit import Scope
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres

# Nothing is given back before the test stops Postgres.
KEEPING = msgspec.structs.replace(SETTINGS, lease_return_seconds=30)


@pytest.fixture
async def store(own_postgres: EmbeddedPostgres) -> AsyncIterator[Store]:
    """A store on a server that the test may stop."""
    dsn = own_postgres.start()
    await migrate(dsn)
    opened = Store(StoreSettings(dsn=dsn, acquire_seconds=0.5))
    await opened.open()
    yield opened
    await opened.close()


async def test_an_account_that_continues_goes_on_and_what_it_used_is_charged(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    account = await account_with(store, a_limit(500))
    async with working(store, KEEPING) as limits:
        await limits.lease(request(account))
        await asyncio.to_thread(own_postgres.stop)
        held = [await limits.lease(request(account)) for _ in range(30)]
        assert limits.beyond_leases == 30
        began = time.monotonic()
        held.append(await limits.lease(request(account)))
        assert time.monotonic() - began < 0.1
        for hold in held:
            hold.settle(requests=1, tokens=15, nanousd=0)
        with pytest.raises(errors.StoreUnavailable):
            await limits.lease(request(account, on_outage_refuse=True))

        await asyncio.to_thread(own_postgres.start)
        await eventually(lambda: not limits._queue.is_away)
        # 31 x 15 tokens are used and 10 reserved: 25 are left, with which the deficit is settled.
        await limits.lease(request(account, tokens=25))
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account, tokens=1))
        assert await granted(store) == 500


async def test_what_was_used_beyond_the_leases_is_told_without_a_new_request(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    account = await account_with(store, a_limit(100))
    async with working(store) as limits:
        await limits.lease(request(account))
        await asyncio.to_thread(own_postgres.stop)
        hold = await limits.lease(request(account, tokens=300))
        hold.settle(requests=1, tokens=300, nanousd=0)
        await asyncio.to_thread(own_postgres.start)
        await settled(store, 310)


async def test_an_account_that_refuses_gets_nothing_beyond_its_leases(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    account = await account_with(store, a_limit(10_000))
    async with working(store, KEEPING) as limits:
        await limits.lease(request(account, on_outage_refuse=True))
        await asyncio.to_thread(own_postgres.stop)
        served = 1
        while limits.reserve(request(account, on_outage_refuse=True)):
            served += 1
        assert served == 20
        for _ in range(3):
            with pytest.raises(errors.StoreUnavailable) as refused:
                await limits.lease(request(account, on_outage_refuse=True))
        assert "used up" in refused.value.message
        assert refused.value.retry_after_seconds == 1
        assert limits.beyond_leases == 0

        await asyncio.to_thread(own_postgres.start)
        await eventually(lambda: not limits._queue.is_away)
        await limits.lease(request(account, on_outage_refuse=True))


async def test_limits_that_change_while_postgres_is_away_are_heeded_when_it_is_back(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    account = await account_with(store, a_limit(10_000))
    async with working(store, KEEPING) as limits:
        await limits.lease(request(account))
        await asyncio.to_thread(own_postgres.stop)
        await eventually(lambda: limits.failures >= 2)
        await asyncio.to_thread(own_postgres.start)
        await eventually(lambda: not limits._queue.is_away)
        await set_limit(store, account, a_limit(15))
        await settled(store, 10)
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account))


async def test_starting_before_postgres_waits_for_it_and_gives_up_after_its_attempts(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    account = await account_with(store, a_limit(100))
    await asyncio.to_thread(own_postgres.stop)
    few = msgspec.structs.replace(SETTINGS, limits_load_attempts_max=2)
    with pytest.raises(errors.StoreUnavailable):
        await Limits(store, SystemClock(), few, new_id(), publish_notices).load()
    limits = Limits(store, SystemClock(), SETTINGS, new_id(), publish_notices)
    async with asyncio.TaskGroup() as tasks:
        loading = tasks.create_task(limits.load())
        await asyncio.sleep(0.3)
        assert not loading.done()
        await asyncio.to_thread(own_postgres.start)
    assert limits.reserve(request(account)) is None


async def test_closing_without_postgres_leaves_the_leases_to_the_drain(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    account = await account_with(store, a_limit(10_000))
    async with working(store, KEEPING) as limits:
        await limits.lease(request(account))
    await asyncio.to_thread(own_postgres.stop)
    await limits.close()
    await asyncio.to_thread(own_postgres.start)
    assert await granted(store) == 200


async def test_an_outage_makes_no_more_balances_than_are_kept(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    account = await account_with(store, a_limit(10, scope=Scope.SESSION, value="*"))
    few = msgspec.structs.replace(KEEPING, pots_max=20)
    async with working(store, few) as limits:
        await limits.lease(request(account, session="before"))
        await asyncio.to_thread(own_postgres.stop)
        await eventually(lambda: limits._queue.is_away)
        for number in range(500):
            with pytest.raises(errors.StoreUnavailable):
                await limits.lease(request(account, session=f"r{number}", on_outage_refuse=True))
        assert len(limits._balances) == 1
        running = await limits.lease(request(account, session="running"))
        for number in range(500):
            hold = await limits.lease(request(account, session=f"c{number}"))
            hold.settle(requests=1, tokens=10, nanousd=0)
        await eventually(lambda: len(limits._balances) <= 20)
        assert len(limits._balances._open) <= 20
        # What is leased and what runs is still known.
        assert running.limits
        assert {balance.value for balance in limits._balances._all.values()} >= {
            "before",
            "running",
        }
