"""Workers' `Limits` on one database, with the drain's part played by a statement."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.admission import AdmissionSettings, LimitBook, Limits
from penstock.app.limit_events import publish_notices
from penstock.clock import SystemClock, new_id, timestamp_of
from penstock.errors import StoreUnavailable
from penstock.policy import AccountBook
from penstock.records.account import AccountId, KeyId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.request import InferenceRequest, RequestId
from penstock.store import Store
from penstock.testing.sample_request import sample_request

SETTINGS = AdmissionSettings(
    limits_refresh_seconds=0.1,
    lease_return_seconds=0.3,
    pots_survey_seconds=0.1,
    outage_retry_seconds=0.1,
)
MODEL = Model(ModelId("m"), Family.OPENAI, 1000, Recipe(("x",)))
KEY = KeyId("key-1")


def request(account: str, *, tokens: int = 10, **fields: object) -> InferenceRequest:
    """One that reserves 1 request and `tokens` tokens."""
    id = new_id()
    given: dict[str, object] = {"key": KEY, "asked_at": timestamp_of(id), **fields}
    return sample_request(
        id=RequestId(id),
        account=AccountId(account),
        model=MODEL,
        body={},
        is_stream=False,
        cache_salt="",
        output_tokens_max=tokens,
        **given,
    )


async def account_with(store: Store, *limits: Limit) -> AccountId:
    """A new account with these limits, whatever account they name."""
    account = await AccountBook(store).create("Team A")
    for limit in limits:
        await set_limit(store, account.id, limit)
    return account.id


async def set_limit(store: Store, account: str, limit: Limit) -> Limit:
    return await LimitBook(store, SETTINGS).create(on_account(account, limit))


def on_account(account: str, limit: Limit) -> Limit:
    of = (limit.scope, limit.value, limit.measure, limit.period)
    return Limit(0, AccountId(account), *of, limit.amount, limit.is_hard)


def a_limit(amount: int, measure: Measure = Measure.TOKENS, **fields: object) -> Limit:
    """On an account, per month unless said otherwise: no test runs into a month's end twice."""
    given: dict[str, object] = {
        "scope": Scope.ACCOUNT, "value": "", "period": Period.MONTH, **fields
    }  # fmt: skip
    return Limit(
        id=0, account=AccountId(""), measure=measure, amount=amount, **given  # type: ignore[arg-type]
    )  # fmt: skip


@asynccontextmanager
async def working(store: Store, settings: AdmissionSettings = SETTINGS) -> AsyncIterator[Limits]:
    """One worker's limits with their loop running; its leases are left as they are at the end."""
    limits = Limits(store, SystemClock(), settings, new_id(), publish_notices)
    await limits.load()
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(limits.run())
        yield limits
        loop.cancel()


async def book(store: Store, limits: Limits, limit: int, amount: int, value: str = "") -> None:
    """What the drain does once it has a worker's journal."""
    async with store.transaction() as transaction:
        await transaction.execute(
            "insert into limit_spend as s (limit_id, value, window_start, holder, amount)"
            " select id, %s, date_trunc(period, now(), 'UTC'), %s::uuid, %s from limits"
            " where id = %s on conflict (limit_id, value, window_start, holder)"
            " do update set amount = s.amount + excluded.amount",
            (value, limits._holder, amount, limit),
        )


async def granted(store: Store) -> int:
    """What all leases amount to."""
    async with store.transaction() as transaction:
        row = await transaction.fetch_one("select coalesce(sum(granted), 0) from leases")
    assert row is not None
    return int(row[0])


async def eventually(is_so: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


async def settled(store: Store, amount: int) -> None:
    """Until all leases together come to this."""
    async with asyncio.timeout(20):
        while True:
            # A Postgres that has just started again may not be reached at once.
            with contextlib.suppress(StoreUnavailable):
                if await granted(store) == amount:
                    return
            await asyncio.sleep(0.02)
