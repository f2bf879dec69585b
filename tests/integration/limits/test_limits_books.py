"""Setting, listing and removing limits; leases of lost workers; windows as Postgres cuts them."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.cells.limits_cell import (
    SETTINGS,
    a_limit,
    account_with,
    book,
    eventually,
    granted,
    on_account,
    request,
    set_limit,
    settled,
    working,
)

from penstock import errors
from penstock.admission import (
    LimitBook,
    Limits,
    limit_rows,
    list_holders,
    release_holder,
    release_lost,
)
from penstock.admission.limit_mirror import LimitMirror
from penstock.admission.windows import window_of
from penstock.app.limit_events import publish_notices
from penstock.clock import SystemClock, new_id
from penstock.policy import AccountBook, KeyBook, KeyMirror, PolicySettings
from penstock.records.account import OnOutage, Role
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Store
from penstock.testing.manual_clock import ManualClock


async def test_a_second_limit_on_the_same_takes_the_firsts_place(store: Store) -> None:
    account = await account_with(store)
    first = await set_limit(store, account, a_limit(100))
    second = await set_limit(store, account, a_limit(70, is_hard=False))
    other = await set_limit(store, account, a_limit(70, period=Period.DAY))
    assert first.id == second.id != other.id
    listed = [state.limit for state in await LimitBook(store, SETTINGS).list(account)]
    assert listed == [second, other]


async def test_a_removed_limit_is_gone_and_may_be_set_anew(store: Store) -> None:
    account = await account_with(store)
    limits = LimitBook(store, SETTINGS)
    first = await set_limit(store, account, a_limit(100))
    await limits.remove(first.id)
    assert await limits.list(account) == ()
    with pytest.raises(errors.NotFound):
        await limits.remove(first.id)
    assert (await set_limit(store, account, a_limit(100))).id != first.id


async def test_limits_are_listed_by_account_with_the_value_that_came_furthest(
    store: Store,
) -> None:
    mine, others = await account_with(store), await account_with(store, a_limit(5))
    limit = await set_limit(store, mine, a_limit(100, scope=Scope.SESSION, value="*"))
    async with working(store) as worker:
        await worker.lease(request(mine, session="short"))
        await worker.lease(request(mine, session="long", tokens=30))
        await book(store, worker, limit.id, 12, "long")
        book_ = LimitBook(store, SETTINGS)
        (state,) = await book_.list(mine)
        assert (state.value, state.spent, state.leased, state.free) == ("long", 12, 18, 70)
        assert state.window_start == window_of(Period.MONTH, SystemClock().now()).start
        assert {each.limit.account for each in await book_.list()} == {mine, others}


@pytest.mark.parametrize(
    "limit",
    [
        a_limit(-1),
        a_limit(10**18 + 1),
        a_limit(1, value="x"),
        a_limit(1, scope=Scope.KEY),
        a_limit(1, scope=Scope.SESSION, value="x" * 257),
        a_limit(1, scope=Scope.WORKFLOW, value="a\tb"),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(store: Store, limit: Limit) -> None:
    account = await account_with(store)
    with pytest.raises(errors.InvalidRequest):
        await set_limit(store, account, limit)


async def test_a_limit_needs_its_account_and_its_key(store: Store) -> None:
    account, other = await account_with(store), await account_with(store)
    with pytest.raises(errors.NotFound):
        await set_limit(store, "0" * 32, a_limit(1))
    key, _ = await KeyBook(store).create(Role.RUNTIME, account, "k")
    await set_limit(store, account, a_limit(1, scope=Scope.KEY, value=key.id))
    with pytest.raises(errors.NotFound):
        await set_limit(store, other, a_limit(1, scope=Scope.KEY, value=key.id))


async def test_there_are_no_more_limits_than_gateways_hold(store: Store) -> None:
    account = await account_with(store)
    few = msgspec.structs.replace(SETTINGS, limits_max=1)
    book_ = LimitBook(store, few)
    await book_.create(on_account(account, a_limit(5)))
    # A change of what is there is no new limit.
    await book_.create(on_account(account, a_limit(6)))
    with pytest.raises(errors.InvalidRequest):
        await book_.create(on_account(account, a_limit(5, Measure.REQUESTS)))
    await set_limit(store, account, a_limit(5, Measure.REQUESTS))
    with pytest.raises(errors.Overloaded):
        await Limits(store, SystemClock(), few, new_id(), publish_notices).load()


async def test_limits_are_read_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_rows, "PAGE_ROWS", 2)
    account = await account_with(
        store, *(a_limit(5, scope=Scope.WORKFLOW, value=f"w{number}") for number in range(5))
    )
    limits = Limits(store, SystemClock(), SETTINGS, new_id(), publish_notices)
    await limits.load()
    assert len(limits._mirror.table) == 5
    assert limits.reserve(request(account, workflow="w4")) is None


async def test_a_database_put_back_in_time_is_read_afresh(store: Store) -> None:
    account = await account_with(store, a_limit(5))
    async with working(store) as limits:
        assert limits.reserve(request(account)) is None
        async with store.transaction() as transaction:
            await transaction.execute("delete from limits")
            await transaction.execute("update limits_revision set revision = 0")
        await eventually(lambda: limits.reserve(request(account)) is not None)


async def test_limits_that_are_read_afresh_in_pages_hold_until_all_are_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_rows, "PAGE_ROWS", 2)
    account = await account_with(
        store, *(a_limit(5, scope=Scope.WORKFLOW, value=f"w{number}") for number in range(5))
    )
    mirror = LimitMirror(store, SETTINGS)
    await mirror.load()
    async with store.transaction() as transaction:
        await transaction.execute("delete from limits where id > 3")
        await transaction.execute("update limits_revision set revision = 3")
    assert await mirror.refresh()
    assert (len(mirror.table), mirror.is_current) == (5, False)
    # What changes between two pages is in the next.
    await set_limit(store, account, a_limit(7, scope=Scope.WORKFLOW, value="w0"))
    assert await mirror.refresh()
    assert await mirror.refresh()
    assert (len(mirror.table), mirror.is_current) == (3, True)
    first = mirror.table.find(1)
    assert first is not None
    assert first.amount == 7
    assert not await mirror.refresh()


async def test_a_bug_in_the_loop_refuses_or_goes_on_and_is_counted(store: Store) -> None:
    account = await account_with(store, a_limit(500))
    async with working(store) as limits:
        async with store.transaction() as transaction:
            await transaction.execute("alter table leases rename to elsewhere")
        with pytest.raises(errors.StoreUnavailable):
            await limits.lease(request(account, on_outage_refuse=True))
        await limits.lease(request(account))
        assert limits.failures >= 1
        assert limits.beyond_leases == 1
        async with store.transaction() as transaction:
            await transaction.execute("alter table elsewhere rename to leases")
        await eventually(lambda: not limits._queue.is_away)
        await limits.lease(request(account, on_outage_refuse=True))


async def test_leases_are_renewed_while_their_worker_lives(store: Store) -> None:
    account = await account_with(store, a_limit(500))
    quick = msgspec.structs.replace(SETTINGS, lease_seconds=1)
    async with working(store, quick) as limits:
        await limits.lease(request(account))
        await asyncio.sleep(2)
        (holder,) = await list_holders(store)
        assert (holder.id, holder.leases, holder.is_expired) == (limits._holder, 1, False)
    await asyncio.sleep(1.2)
    (holder,) = await list_holders(store)
    assert holder.is_expired
    assert holder.expires_at < SystemClock().now()


async def test_a_worker_whose_lease_was_released_asks_anew(store: Store) -> None:
    account = await account_with(store, a_limit(500))
    quick = msgspec.structs.replace(SETTINGS, lease_seconds=1, lease_return_seconds=60)
    async with working(store, quick) as limits:
        await limits.lease(request(account, tokens=490))
        async with store.transaction() as transaction:
            assert await release_holder(transaction, limits._holder) == 1
        await eventually(lambda: limits.leases_held == 0)
        # What runs is known here still.
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(account, tokens=11))
        await limits.lease(request(account, tokens=10))
        assert await granted(store) == 500


async def test_a_lost_workers_lease_stays_charged_until_it_is_given_up(store: Store) -> None:
    account = await account_with(store, a_limit(500))
    async with working(store) as lost:
        await lost.lease(request(account))
    async with store.transaction() as transaction:
        await transaction.execute(
            "update lease_holders set expires_at = now() - interval '23 hours'"
        )
    assert await release_lost(store, 24) == 0
    assert await granted(store) == 10
    assert await release_lost(store, 22) == 1
    assert await granted(store) == 0


async def test_leases_of_windows_long_over_are_dropped(store: Store) -> None:
    account = await account_with(store, a_limit(500), a_limit(50, period=Period.DAY))
    now = SystemClock().now()
    limits = Limits(store, ManualClock(now=now - 60 * 86_400), SETTINGS, new_id(), publish_notices)
    await limits.load()
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(limits.run())
        await limits.lease(request(account, asked_at=now - 60 * 86_400))
        await limits.lease(request(account, asked_at=now))
        loop.cancel()
    assert await granted(store) == 40
    assert await release_lost(store, 24) == 0
    assert await granted(store) == 40
    async with store.transaction() as transaction:
        await transaction.execute(
            "update lease_holders set expires_at = now() - interval '1 minute'"
        )
    assert await release_lost(store, 24) == 0
    await settled(store, 20)


async def test_gateways_learn_what_an_account_wants_in_an_outage(store: Store) -> None:
    accounts = AccountBook(store)
    account = await accounts.create("Team A", on_outage=OnOutage.REFUSE)
    _, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "k")
    mirror = KeyMirror(store, SystemClock(), PolicySettings())
    await mirror.load()
    key = mirror.find(secret.encode())
    assert key is not None
    assert key.account == account == await accounts.find(account.id)
    changed = await accounts.set_on_outage(account.id, OnOutage.CONTINUE)
    await mirror.load()
    key = mirror.find(secret.encode())
    assert key is not None
    assert key.account == changed != account
    with pytest.raises(errors.NotFound):
        await accounts.set_on_outage("0" * 32, OnOutage.REFUSE)


MOMENTS = st.integers(min_value=0, max_value=4_102_444_800_000)


async def test_windows_are_those_of_postgres(store: Store) -> None:
    examples: list[tuple[Period, float]] = []

    @settings(max_examples=500)
    @given(MOMENTS, st.sampled_from(Period))
    def collect(millis: int, period: Period) -> None:
        start, end = window_of(period, millis / 1000)
        examples.extend((period, float(each)) for each in (millis / 1000, start, end, end - 0.001))

    collect()
    periods, moments = zip(*examples, strict=True)
    async with store.transaction() as transaction:
        rows = await transaction.fetch(
            "select extract(epoch from date_trunc(period, to_timestamp(at), 'UTC'))::bigint"
            " from unnest(%s::text[], %s::float8[]) with ordinality as each (period, at, place)"
            " order by place",
            ([period.value for period in periods], list(moments)),
        )
    assert [row[0] for row in rows] == [window_of(*example).start for example in examples]
