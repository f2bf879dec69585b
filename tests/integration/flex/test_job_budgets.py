"""Money held for jobs, on a real Postgres: never more than there is, and all of it settled."""

import asyncio
import random
from collections.abc import Sequence

import pytest
from tests.integration.cells.limits_cell import (
    KEY,
    SETTINGS,
    a_limit,
    account_with,
    request,
    set_limit,
    working,
)

from penstock import errors
from penstock.admission import (
    LimitBook,
    Limits,
    LimitState,
    Moment,
    Settlement,
    find_money_limits,
    hold_jobs,
    limits_counting,
    list_holders,
    release_jobs,
    release_lost,
    settle_jobs,
)
from penstock.clock import SystemClock, new_id, timestamp_of
from penstock.records.account import AccountId
from penstock.records.job import Released, Ticket
from penstock.records.limit import FLEX_HOLDER, Measure, Period, Scope
from penstock.records.price import Price
from penstock.store import Store

MONEY = Measure.NANOUSD
# One nano-dollar a token, so that a request's tokens are its price.
EACH_TOKEN = Price(0, 0, 10**6)


async def hold(
    store: Store, account: AccountId, *amounts: int, at: float | None = None, **labels: str
) -> list[Released]:
    """Hold these amounts for jobs of the account, all or none."""
    asked_at = timestamp_of(new_id()) if at is None else at
    ticket = Ticket(**labels)  # type: ignore[arg-type] # the ticket's own labels
    async with store.transaction() as transaction:
        limits = await find_money_limits(transaction, account)
        counting = limits_counting(limits, KEY, ticket)
        jobs = [
            Released(account, KEY, ticket.workflow, ticket.session, counting, amount, asked_at)
            for amount in amounts
        ]
        moment = Moment(SystemClock().now(), SETTINGS.lease_return_seconds)
        await hold_jobs(transaction, limits, jobs, moment)
    return jobs


async def settle(store: Store, *ends: tuple[Released, int]) -> None:
    async with store.transaction() as transaction:
        await settle_jobs(transaction, [Settlement(*end) for end in ends])


async def release(store: Store, jobs: Sequence[Released]) -> None:
    async with store.transaction() as transaction:
        await release_jobs(transaction, jobs)


async def stands(store: Store, account: AccountId) -> list[LimitState]:
    return list(await LimitBook(store, SETTINGS).list(account))


async def leased(store: Store, account: AccountId) -> list[int]:
    return [state.leased for state in await stands(store, account)]


async def book_spend(store: Store, limit: int, amount: int) -> None:
    """What a charge does once a job is finished."""
    async with store.transaction() as transaction:
        await transaction.execute(
            "insert into limit_spend as s (limit_id, value, window_start, holder, amount)"
            " select id, '', date_trunc(period, now(), 'UTC'), %s::uuid, %s from limits"
            " where id = %s on conflict (limit_id, value, window_start, holder)"
            " do update set amount = s.amount + excluded.amount",
            (FLEX_HOLDER, amount, limit),
        )


async def test_jobs_hold_what_they_may_cost_until_they_end(store: Store) -> None:
    account = await account_with(store, a_limit(1000, MONEY))
    first, second = await hold(store, account, 300, 400)
    assert await leased(store, account) == [700]
    await release(store, [first])
    assert await leased(store, account) == [400]
    (state,) = await stands(store, account)
    await book_spend(store, state.limit.id, 150)
    await settle(store, (second, 150))
    (state,) = await stands(store, account)
    assert (state.spent, state.leased, state.free) == (150, 0, 850)


async def test_job_that_cost_more_than_it_held_counts_in_full(store: Store) -> None:
    account = await account_with(store, a_limit(1000, MONEY))
    (job,) = await hold(store, account, 300)
    await settle(store, (job, 450))
    assert await leased(store, account) == [450]


async def test_refusal_names_the_limit_what_is_left_and_when_it_resets(store: Store) -> None:
    account = await account_with(store, a_limit(10**9, MONEY, period=Period.DAY))
    await hold(store, account, 600_000_000)
    with pytest.raises(errors.BudgetSpent) as refused:
        await hold(store, account, 200_000_000, 300_000_000)
    message = refused.value.message
    assert "The limit of 1.00 USD per day for this account leaves 0.40 USD" in message
    assert "may need 0.50 USD" in message
    assert "begins anew at" in message
    assert "held by requests" not in message, "what jobs hold does not come back soon"
    assert (refused.value.retry_after_seconds or 0) > 1
    assert await leased(store, account) == [600_000_000], "all or none"


async def test_refusal_says_so_when_running_requests_hold_the_rest(store: Store) -> None:
    account = await account_with(store, a_limit(1000, MONEY))
    async with working(store) as limits:
        held = await limits.lease(request(account, tokens=900, price=EACH_TOKEN))
        with pytest.raises(errors.BudgetSpent, match="held by requests that run"):
            await hold(store, account, 500)
        held.settle(requests=0, tokens=0, nanousd=0)


async def test_limit_that_only_warns_counts_and_refuses_nothing(store: Store) -> None:
    account = await account_with(store, a_limit(100, MONEY, is_hard=False))
    jobs = await hold(store, account, 300)
    assert await leased(store, account) == [300]
    await release(store, jobs)
    assert await leased(store, account) == [0]


async def test_rates_and_quotas_do_not_apply_to_jobs(store: Store) -> None:
    account = await account_with(
        store,
        a_limit(0, Measure.REQUESTS, period=Period.MINUTE),
        a_limit(0, Measure.TOKENS, period=Period.MONTH),
    )
    (job,) = await hold(store, account, 300)
    assert job.limits == ()
    assert await leased(store, account) == [0, 0]


async def test_free_jobs_pass_a_budget_that_is_spent(store: Store) -> None:
    account = await account_with(store, a_limit(0, MONEY))
    await hold(store, account, 0, 0)
    assert await leased(store, account) == [0]


async def test_each_limit_holds_the_jobs_it_is_on(store: Store) -> None:
    account = await account_with(
        store,
        a_limit(2000, MONEY),
        a_limit(2000, MONEY, scope=Scope.KEY, value="*"),
        a_limit(1000, MONEY, scope=Scope.WORKFLOW, value="*"),
        a_limit(1000, MONEY, scope=Scope.SESSION, value="s1"),
    )
    both = await hold(store, account, 10, workflow="w1", session="s1")
    assert await leased(store, account) == [10, 10, 10, 10]
    await hold(store, account, 7, workflow="w2", session="s2")
    # Of a limit on each by itself, the one that has come furthest.
    assert await leased(store, account) == [17, 17, 10, 10]
    await release(store, both)
    assert await leased(store, account) == [7, 7, 7, 0]
    with pytest.raises(errors.BudgetSpent, match="workflow `w2`"):
        await hold(store, account, 994, workflow="w2")


async def test_windows_are_those_of_the_submission(store: Store) -> None:
    account = await account_with(store, a_limit(100, MONEY, period=Period.MINUTE))
    now = SystemClock().now()
    (earlier,) = await hold(store, account, 90, at=now - 60)
    (job,) = await hold(store, account, 90, at=now)
    with pytest.raises(errors.BudgetSpent):
        await hold(store, account, 20, at=now - 60)
    await release(store, [earlier])
    await hold(store, account, 20, at=now - 60)
    await settle(store, (job, 5))
    async with store.transaction() as transaction:
        rows = await transaction.fetch("select granted from leases order by window_start")
    assert [row[0] for row in rows] == [20, 5]


async def test_nobody_tidies_away_what_jobs_hold(store: Store) -> None:
    account = await account_with(store, a_limit(1000, MONEY))
    jobs = await hold(store, account, 300)
    async with working(store) as limits:
        live = await limits.lease(request(account, tokens=100, price=EACH_TOKEN))
        live.settle(requests=1, tokens=100, nanousd=100)
        # Sweeps, surveys and renewals of a worker that lives, over and over.
        await asyncio.sleep(0.5)
        await release_lost(store, 0.0)
        assert FLEX_HOLDER not in [holder.id for holder in await list_holders(store)]
        await limits.close()
    await release_lost(store, 0.0)
    assert await leased(store, account) == [300]
    await release(store, jobs)
    assert await leased(store, account) == [0]


async def test_ended_windows_are_dropped_and_late_ends_find_nothing_amiss(store: Store) -> None:
    account = await account_with(store, a_limit(1000, MONEY, period=Period.DAY))
    old = SystemClock().now() - 3 * 86_400
    finished, cancelled = await hold(store, account, 300, 400, at=old)
    (present,) = await hold(store, account, 500)
    await release_lost(store, 24.0)
    async with store.transaction() as transaction:
        assert await transaction.fetch("select granted from leases") == [(500,)]
    await settle(store, (finished, 100))
    await release(store, [cancelled, present])
    assert await leased(store, account) == [0]


async def test_limit_that_was_removed_or_set_meanwhile_is_no_obstacle(store: Store) -> None:
    account = await account_with(store, a_limit(1000, MONEY))
    (job,) = await hold(store, account, 300)
    (state,) = await stands(store, account)
    await LimitBook(store, SETTINGS).remove(state.limit.id)
    await set_limit(store, account, a_limit(500, MONEY))
    await settle(store, (job, 200))
    await release(store, [job])
    await hold(store, account, 500)
    assert await leased(store, account) == [500]


async def test_what_is_given_back_twice_never_makes_money(store: Store) -> None:
    account = await account_with(store, a_limit(1000, MONEY))
    jobs = await hold(store, account, 300)
    await release(store, jobs)
    await release(store, jobs)
    assert await leased(store, account) == [0]


async def test_twenty_submits_and_live_gateways_together_never_pass_a_limit(store: Store) -> None:
    """Each asks as often as it can; what was granted to all comes to no more than there is."""
    amount = 10_000
    account = await account_with(store, a_limit(amount, MONEY))
    chosen = random.Random(5)
    held: list[Released] = []
    lived = 0

    async def submit(sizes: list[int]) -> None:
        for size in sizes:
            try:
                held.extend(await hold(store, account, size, size))
            except errors.BudgetSpent:
                await asyncio.sleep(0)

    async def infer(limits: Limits) -> None:
        nonlocal lived
        for _ in range(40):
            try:
                hold_ = await limits.lease(request(account, tokens=50, price=EACH_TOKEN))
            except errors.BudgetSpent:
                continue
            hold_.settle(requests=1, tokens=50, nanousd=50)
            lived += 50

    sizes = [[chosen.randrange(1, 200) for _ in range(6)] for _ in range(20)]
    async with working(store) as one, working(store) as two:
        await asyncio.gather(*map(submit, sizes), infer(one), infer(two))
        total = sum(job.nanousd for job in held) + lived
        assert total <= amount
        (state,) = await stands(store, account)
        assert state.spent + state.leased <= amount
        assert state.free < 200, "all of it was wanted"
        # Half of them end without a charge, half cost a third of what they held, at once.
        halves = held[::2], held[1::2]
        await asyncio.gather(
            *(release(store, [job]) for job in halves[0]),
            *(settle(store, (job, job.nanousd // 3)) for job in halves[1]),
        )
    async with store.transaction() as transaction:
        row = await transaction.fetch_one(
            "select granted from leases where holder = %s::uuid", (FLEX_HOLDER,)
        )
    assert row == (sum(job.nanousd // 3 for job in halves[1]),)
