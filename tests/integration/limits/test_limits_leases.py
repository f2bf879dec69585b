"""Reserve, lease, settle and give back, against a real Postgres."""

import asyncio

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
from penstock.admission import NO_HOLD, LimitBook, Limits
from penstock.app.limit_events import publish_notices
from penstock.clock import SystemClock, new_id
from penstock.records.account import KeyId
from penstock.records.limit import Measure, Period, Scope
from penstock.store import Store


async def test_an_account_without_limits_is_never_asked_about(store: Store) -> None:
    account = await account_with(store)
    async with working(store) as limits:
        assert limits.reserve(request(account)) is NO_HOLD
        assert await limits.lease(request(account)) is NO_HOLD
        assert limits.lease_round_trips == 0


async def test_one_slice_serves_many_requests_without_a_round_trip(store: Store) -> None:
    account = await account_with(store, a_limit(10_000))
    async with working(store) as limits:
        assert limits.reserve(request(account)) is None
        first = await limits.lease(request(account))
        # 2 % of 10,000 tokens is 20 requests' worth.
        assert all(limits.reserve(request(account)) for _ in range(19))
        assert limits.reserve(request(account)) is None
        assert limits.lease_round_trips == 1
        assert limits.leases_held == 1
        assert first.standings[0].left == 10_000 - 200


async def test_a_burst_shares_its_round_trips(store: Store) -> None:
    account = await account_with(store, a_limit(640))
    async with working(store) as limits:
        holds = await asyncio.gather(*(limits.lease(request(account)) for _ in range(64)))
        assert len(holds) == 64
        assert limits.lease_round_trips <= 3
        assert await granted(store) == 640
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account))


async def test_what_was_not_used_is_given_back_and_what_was_stays_charged(store: Store) -> None:
    account = await account_with(store, a_limit(10_000))
    async with working(store) as limits:
        hold = await limits.lease(request(account))
        hold.settle(requests=1, tokens=4, nanousd=0)
        await settled(store, 4)
        # The drain books the same use: it is not counted twice.
        await book(store, limits, hold.limits[0], 4)
        (state,) = await LimitBook(store, SETTINGS).list(account)
        assert (state.spent, state.leased, state.free) == (4, 0, 9_996)


async def test_all_limits_are_reserved_or_none(store: Store) -> None:
    account = await account_with(
        store,
        a_limit(1000),
        a_limit(1, Measure.REQUESTS, period=Period.MINUTE, scope=Scope.SESSION, value="*"),
    )
    async with working(store) as limits:
        one = await limits.lease(request(account, session="s"))
        with pytest.raises(errors.RateLimited) as refused:
            await limits.lease(request(account, session="s"))
        assert "session `s`" in refused.value.message
        assert len(one.limits) == 2
        assert limits.refusals == {(Scope.SESSION, Measure.REQUESTS, Period.MINUTE): 1}
        # The other limit lost nothing by the refusal, and another session is not concerned.
        one.settle(requests=0, tokens=0, nanousd=0)
        assert await limits.lease(request(account, session="other"))
        await settled(store, 10 + 1)


async def test_money_that_others_hold_comes_back_within_the_retry_time(store: Store) -> None:
    account = await account_with(store, a_limit(15))
    async with working(store) as first, working(store) as second:
        hold = await first.lease(request(account))
        with pytest.raises(errors.QuotaSpent) as refused:
            await second.lease(request(account))
        assert refused.value.retry_after_seconds == 1
        hold.settle(requests=1, tokens=2, nanousd=0)
        await asyncio.sleep(refused.value.retry_after_seconds)
        await second.lease(request(account))


async def test_use_in_this_window_before_the_limit_counts(store: Store) -> None:
    account = await account_with(store)
    async with store.transaction() as transaction:
        await transaction.execute(
            "insert into usage_hours values (date_trunc('hour', now(), 'UTC'), %s, 'key-1', 'm',"
            " 'now', 'w', 3, 3, 3, 0, 0, 0, 0, 0, 60, 0, 0, 35, 700, 0, '{}')",
            (account,),
        )
    limit = a_limit(100)
    await set_limit(store, account, limit)
    await set_limit(store, account, a_limit(2, Measure.REQUESTS, scope=Scope.WORKFLOW, value="w"))
    await set_limit(store, account, a_limit(900, Measure.NANOUSD))
    await set_limit(store, account, a_limit(900, Measure.NANOUSD, scope=Scope.WORKFLOW, value="*"))
    states = await LimitBook(store, SETTINGS).list(account)
    assert [state.free for state in states] == [5, -1, 200, 900]
    async with working(store) as limits:
        await limits.lease(request(account, tokens=5))
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account, tokens=1))


async def test_limits_are_heeded_changed_and_removed_while_running(store: Store) -> None:
    account = await account_with(store)
    async with working(store) as limits:
        assert limits.reserve(request(account)) is NO_HOLD
        limit = await set_limit(store, account, a_limit(10_000))
        await eventually(lambda: limits.reserve(request(account)) is None)
        hold = await limits.lease(request(account))
        assert await granted(store) == 200

        await set_limit(store, account, a_limit(15))
        # What was leased under the old amount goes back; only what runs is kept.
        await settled(store, 10)
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account))
        assert hold.standings[0].limit.amount == 15

        await LimitBook(store, SETTINGS).remove(limit.id)
        await eventually(lambda: limits.reserve(request(account)) is NO_HOLD)
        await settled(store, 0)
        hold.settle(requests=1, tokens=10, nanousd=0)
        assert limits.leases_held == 0


async def test_a_limit_that_is_removed_or_softened_just_now_refuses_nobody(store: Store) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(5))
    slow = msgspec.structs.replace(SETTINGS, limits_refresh_seconds=60)
    async with working(store, slow) as limits:
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account))
        await LimitBook(store, SETTINGS).remove(limit.id)
        await limits.lease(request(account))


async def test_a_soft_limit_becomes_hard_with_all_that_was_used(store: Store) -> None:
    account = await account_with(store)
    await set_limit(store, account, a_limit(100, is_hard=False))
    async with working(store) as limits:
        for _ in range(9):
            hold = limits.reserve(request(account))
            assert hold is not None
            hold.settle(requests=1, tokens=10, nanousd=0)
        hard = await set_limit(store, account, a_limit(100))
        await eventually(lambda: limits._mirror.table.find(hard.id) == hard)
        assert limits.reserve(request(account)) is None
        await limits.lease(request(account))
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account, tokens=1))


async def test_a_soft_limit_refuses_nobody_and_warns_once(store: Store) -> None:
    account = await account_with(store, a_limit(25, is_hard=False))
    async with working(store) as limits, working(store) as other:
        kind = (Scope.ACCOUNT, Measure.TOKENS, Period.MONTH)
        for each in (limits, other):
            hold = each.reserve(request(account))
            assert hold is not None
            await book(store, each, hold.limits[0], 10)
            hold.settle(requests=1, tokens=10, nanousd=0)
        await asyncio.sleep(0.3)
        assert not limits.warnings
        hold = limits.reserve(request(account))
        assert hold is not None
        assert not hold.warnings
        hold.settle(requests=1, tokens=10, nanousd=0)
        await eventually(lambda: limits.warnings == {kind: 1})
        # It is said on the next answers, too.
        assert [standing.left for standing in hold.warnings] == [0]
        assert limits.lease_round_trips == 0
        assert not limits.refusals
        await asyncio.sleep(0.3)
        assert limits.warnings == {kind: 1}


async def test_closing_gives_everything_back(store: Store) -> None:
    account = await account_with(store, a_limit(10_000))
    async with working(store) as limits:
        hold = await limits.lease(request(account))
        hold.settle(requests=1, tokens=4, nanousd=0)
    await book(store, limits, hold.limits[0], 4)
    await limits.close()
    (state,) = await LimitBook(store, SETTINGS).list(account)
    assert (state.spent, state.leased) == (4, 0)


async def test_a_request_that_leaves_while_it_waits_reserves_nothing(store: Store) -> None:
    account = await account_with(store, a_limit(10))
    async with working(store) as limits, asyncio.TaskGroup() as tasks:
        for _ in range(5):
            waiting = tasks.create_task(limits.lease(request(account)))
            await asyncio.sleep(0)
            waiting.cancel()
        await settled(store, 0)
        await limits.lease(request(account))


async def test_more_than_may_wait_are_told_to_come_back(store: Store) -> None:
    account = await account_with(store, a_limit(1000))
    narrow = msgspec.structs.replace(SETTINGS, lease_waiting_max=1, lease_wait_seconds=0.1)
    limits = Limits(store, SystemClock(), narrow, new_id(), publish_notices)
    await limits.load()
    async with asyncio.TaskGroup() as tasks:
        # Nobody serves them: the loop does not run.
        first = tasks.create_task(_overloaded(limits, account))
        await asyncio.sleep(0)
        await _overloaded(limits, account)
        assert not first.done()
    # After its wait that one is, too. Postgres was not asked: nobody goes on without it.
    assert limits.beyond_leases == 0
    assert not limits._queue.is_away
    assert len(limits._balances) == 0


async def _overloaded(limits: Limits, account: str) -> None:
    with pytest.raises(errors.Overloaded):
        await limits.lease(request(account))


async def test_balances_of_ended_windows_and_their_leases_are_dropped(store: Store) -> None:
    account = await account_with(store, a_limit(10, Measure.REQUESTS, period=Period.MINUTE))
    quick = msgspec.structs.replace(SETTINGS, lease_seconds=1)
    async with working(store, quick) as limits:
        hold = await limits.lease(request(account, asked_at=SystemClock().now() - 300))
        # Nobody else will ask for a part of that window, so it needs no lease while this runs.
        await settled(store, 0)
        assert limits.leases_held == 1
        hold.settle(requests=1, tokens=1, nanousd=0)
        await eventually(lambda: limits.leases_held == 0)
        await settled(store, 0)


async def test_more_balances_than_are_kept_cost_round_trips_and_no_exactness(store: Store) -> None:
    account = await account_with(store, a_limit(15, scope=Scope.KEY, value="*"))
    few = msgspec.structs.replace(SETTINGS, pots_max=0)
    async with working(store, few) as limits:
        for number in range(5):
            hold = await limits.lease(request(account, key=KeyId(f"k{number}")))
            hold.settle(requests=1, tokens=10, nanousd=0)
        await eventually(lambda: len(limits._balances) == 0)
        for number in range(5):
            with pytest.raises(errors.QuotaSpent):
                await limits.lease(request(account, key=KeyId(f"k{number}")))
            await limits.lease(request(account, key=KeyId(f"k{number}"), tokens=5))
