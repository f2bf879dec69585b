"""Many clients on several workers against a limit for exactly N requests."""

import asyncio

import pytest
from tests.integration.cells.limits_cell import (
    SETTINGS,
    a_limit,
    account_with,
    book,
    eventually,
    request,
    set_limit,
    settled,
    working,
)

from penstock import errors
from penstock.admission import Hold, LimitBook, Limits, release_holder
from penstock.records.limit import Measure
from penstock.store import Store

CLIENTS = 64
EXACTLY = 500
TOKENS = 10


class Race:
    """What clients got, and what was reserved at once at most."""

    def __init__(self) -> None:
        self.served = 0
        self.running = 0
        self.most_held = 0
        self.refused = 0

    async def client(self, limits: Limits, account: str, used: int) -> None:
        """Come until told that only the next window helps; obey `Retry-After` before."""
        while True:
            try:
                hold = await _hold(limits, account)
            except errors.QuotaSpent as refusal:
                self.refused += 1
                if (refusal.retry_after_seconds or 3600) > 60:
                    return
                await asyncio.sleep(refusal.retry_after_seconds or 0)
                continue
            self.running += 1
            self.most_held = max(self.most_held, self.running * TOKENS + self.served * used)
            await asyncio.sleep(0.002)
            self.running -= 1
            self.served += 1
            hold.settle(requests=1, tokens=used, nanousd=0)


async def _hold(limits: Limits, account: str) -> Hold:
    made = request(account, tokens=TOKENS)
    return limits.reserve(made) or await limits.lease(made)


async def test_racing_clients_get_the_whole_budget_and_not_a_token_more(store: Store) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(EXACTLY * TOKENS))
    race = Race()
    async with (
        working(store) as a, working(store) as b, working(store) as c, working(store) as d,
        asyncio.TaskGroup() as clients,
    ):  # fmt: skip
        workers = (a, b, c, d)
        racing = [
            clients.create_task(race.client(workers[number % 4], account, TOKENS))
            for number in range(CLIENTS)
        ]
        draining = clients.create_task(_drain(store, limit.id, workers))
        await asyncio.wait(racing)
        draining.cancel()
    assert race.most_held <= EXACTLY * TOKENS
    assert 0.95 * EXACTLY <= race.served <= EXACTLY
    assert sum(each.lease_round_trips for each in (a, b, c, d)) < EXACTLY + race.refused


async def test_what_answers_leave_unused_is_served_too(store: Store) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(200 * TOKENS))
    race = Race()
    async with working(store) as a, working(store) as b, asyncio.TaskGroup() as clients:
        racing = [
            clients.create_task(race.client((a, b)[number % 2], account, TOKENS // 2))
            for number in range(CLIENTS)
        ]
        draining = clients.create_task(_drain(store, limit.id, (a, b)))
        await asyncio.wait(racing)
        draining.cancel()
    assert race.most_held <= 200 * TOKENS
    assert race.served >= 0.95 * 400


async def test_a_refusal_means_that_postgres_had_not_enough(store: Store) -> None:
    """One that looks right after a refusal, while nobody gives anything back, finds too little."""
    account = await account_with(store, a_limit(10 * TOKENS + 3))
    async with working(store) as a, working(store) as b:
        held = [await (a, b)[number % 2].lease(request(account)) for number in range(10)]
        for limits, free in ((a, 3), (b, 2)):
            with pytest.raises(errors.QuotaSpent):
                await limits.lease(request(account))
            (state,) = await LimitBook(store, SETTINGS).list(account)
            assert state.free == free
            await limits.lease(request(account, tokens=1))
        assert len(held) == 10


async def test_what_a_killed_worker_held_comes_back_when_its_journal_is_drained(
    store: Store,
) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(100 * TOKENS))
    async with working(store) as killed:
        for _ in range(60):
            await _hold(killed, account)
        # 30 were answered before it died; of the rest nothing reached an engine.
    async with working(store) as other:
        race = Race()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await race.client(other, account, TOKENS)
        assert race.served == 40
        await book(store, killed, limit.id, 30 * TOKENS)
        async with store.transaction() as transaction:
            assert await release_holder(transaction, killed._holder) == 1
        await book(store, other, limit.id, race.served * TOKENS)
        async with asyncio.TaskGroup() as clients:
            again = clients.create_task(race.client(other, account, TOKENS))
            await eventually(lambda: race.served == 70)
            again.cancel()
        await settled(store, 70 * TOKENS)


async def test_limits_of_several_measures_hold_together(store: Store) -> None:
    account = await account_with(store, a_limit(1000), a_limit(7, Measure.REQUESTS))
    async with working(store) as a, working(store) as b:
        outcomes = await asyncio.gather(
            *((a, b)[number % 2].lease(request(account)) for number in range(20)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Hold) for each in outcomes) == 7
        refusals = [each for each in outcomes if isinstance(each, errors.QuotaSpent)]
        assert len(refusals) == 13
        assert all("7 requests per month" in each.message for each in refusals)


async def _drain(store: Store, limit: int, workers: tuple[Limits, ...]) -> None:
    """Book what was used, a little later."""
    booked = [0] * len(workers)
    while True:
        await asyncio.sleep(0.2)
        for number, worker in enumerate(workers):
            used = sum(balance.used for balance in worker._balances._all.values())
            await book(store, worker, limit, used - booked[number])
            booked[number] = used
