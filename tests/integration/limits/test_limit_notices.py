"""An account is told once that a limit of a day or a month is used up."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.integration.cells.leading_control import WEBHOOKS, leading
from tests.integration.cells.limits_cell import (
    SETTINGS,
    a_limit,
    account_with,
    book,
    request,
    set_limit,
    working,
)
from tests.integration.cells.webhook_receiver import receiving

from penstock import errors
from penstock.admission import LimitNotice, Limits
from penstock.admission.division import Shortage
from penstock.admission.limit_notices import LimitNotices
from penstock.admission.window_balance import WindowBalance
from penstock.admission.windows import window_of
from penstock.app.limit_events import publish_notices
from penstock.clock import SystemClock
from penstock.events import EndpointBook, NewEndpoint, Shape
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Store, Transaction

# Longer than some surveys, so that what would be told twice is.
_SURVEYS = 0.5


async def test_a_webhook_says_that_a_limit_is_reached(
    store: Store, dsn: str, tmp_path: Path
) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(30, period=Period.DAY))
    async with receiving() as receiver, leading(store, dsn, tmp_path):
        types = ("limit.reached", "limit.passed")
        wanted = NewEndpoint(account, Shape.OPENAI, "mine", receiver.url, types)
        await EndpointBook(store, WEBHOOKS).create(wanted)
        async with working(store) as limits, working(store) as other:
            await _use_up(store, limits, account, limit, 30)
            # Each sees it, again and again; the account is told once.
            for _ in range(3):
                for each in (limits, other):
                    with pytest.raises(errors.QuotaSpent):
                        await each.lease(request(account))
            await receiver.wait_for(1)
            await asyncio.sleep(_SURVEYS)
        assert len(receiver.received) == 1
    body = json.loads(receiver.received[0].body)
    assert body["type"] == "limit.reached"
    assert body["data"] == {
        "limit": limit.id,
        "scope": "account",
        "value": "",
        "contract": None,
        "measure": "tokens",
        "period": "day",
        "amount": 30,
        "resets_at": window_of(Period.DAY, SystemClock().now()).end,
    }


async def test_a_limit_that_only_warns_is_told_of_when_it_is_passed(store: Store) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(25, is_hard=False))
    async with working(store) as limits:
        await _use_up(store, limits, account, limit, 30)
        assert await _told(store, account, 1) == [("limit.passed", 25)]


async def test_a_limit_that_was_raised_is_told_of_again(store: Store) -> None:
    account = await account_with(store)
    limit = await set_limit(store, account, a_limit(20))
    async with working(store) as limits:
        for amount, used in ((20, 20), (50, 30)):
            await set_limit(store, account, a_limit(amount))
            await asyncio.sleep(_SURVEYS)
            await _use_up(store, limits, account, limit, used)
            await _refused(limits, account)
        assert await _told(store, account, 2) == [("limit.reached", 20), ("limit.reached", 50)]


async def test_what_is_not_used_up_is_not_told(store: Store) -> None:
    """A minute's rate, a request larger than the limit, and what others hold and may give back."""
    minute = await account_with(store, a_limit(10, period=Period.MINUTE))
    large = await account_with(store, a_limit(20))
    held = await account_with(store, a_limit(20))
    async with working(store) as limits, working(store) as other:
        await limits.lease(request(minute))
        await _refused(limits, minute)
        with pytest.raises(errors.QuotaSpent):
            await limits.lease(request(large, tokens=21))
        holds = [await limits.lease(request(held)) for _ in range(2)]
        await _refused(other, held)
        await asyncio.sleep(_SURVEYS)
        assert len(holds) == 2
        for account in (minute, large, held):
            assert await _told(store, account, 0) == []


async def test_what_could_not_be_written_is_written_later(store: Store) -> None:
    """Postgres goes away before the commit, and after it: the account is told once."""
    account = AccountId("team-a")
    tries = 0

    async def publish(transaction: Transaction, notices: Sequence[LimitNotice]) -> None:
        nonlocal tries
        tries += 1
        await publish_notices(transaction, notices)
        if tries == 1:
            raise errors.StoreUnavailable

    notices = LimitNotices(store, SETTINGS, publish)
    notices.note_refused(_shortage(account))
    with pytest.raises(errors.StoreUnavailable):
        await notices.write()
    assert await _told(store, account, 0) == []
    assert await notices.write()
    # Another worker, or this one after an answer that was lost.
    for each in (notices, LimitNotices(store, SETTINGS, publish)):
        each.note_refused(_shortage(account))
        await each.write()
    assert await _told(store, account, 1) == [("limit.reached", 100)]


async def test_notices_are_bounded(store: Store) -> None:
    """Sessions are named by callers. What found no room is told with its next refusal."""
    account = AccountId("team-a")
    few = msgspec.structs.replace(SETTINGS, pots_batch_max=3)
    notices = LimitNotices(store, few, publish_notices)
    for _ in range(4):
        for session in range(10):
            notices.note_refused(_shortage(account, f"session-{session}"))
        await notices.write()
    assert len(await _told(store, account, 10)) == 10


def _shortage(account: AccountId, session: str = "") -> Shortage:
    scope = Scope.SESSION if session else Scope.ACCOUNT
    limit = Limit(7, account, scope, "*" if session else "", Measure.TOKENS, Period.MONTH, 100)
    balance = WindowBalance(limit, session, window_of(Period.MONTH, SystemClock().now()))
    return Shortage(balance, 10, 0, 100, is_held=False)


async def _use_up(
    store: Store, limits: Limits, account: AccountId, limit: Limit, tokens: int
) -> None:
    """Use so many tokens, booked as the drain does it."""
    for _ in range(tokens // 10):
        hold = await limits.lease(request(account))
        await book(store, limits, limit.id, 10)
        hold.settle(requests=1, tokens=10, nanousd=0)


async def _refused(limits: Limits, account: AccountId) -> None:
    with pytest.raises(errors.OverLimit):
        await limits.lease(request(account))


async def _told(store: Store, account: AccountId, count: int) -> list[tuple[str, int]]:
    """The types and amounts of the events that an account was told, once there are so many."""
    async with asyncio.timeout(10):
        while True:
            async with store.transaction() as transaction:
                rows = await transaction.fetch(
                    "select type, (data ->> 'amount')::int from outbox where account = %s"
                    " order by id",
                    (account,),
                )
            if len(rows) >= count:
                return [(str(row[0]), int(row[1])) for row in rows]
            await asyncio.sleep(0.05)
