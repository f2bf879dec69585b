"""A gateway's mirror while Postgres is really stopped, and after it has come back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from penstock import errors
from penstock.clock import SystemClock
from penstock.policy import AccountBook, KeyBook, KeyMirror, PolicySettings
from penstock.records.account import Role
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres

SETTINGS = PolicySettings(refresh_seconds=0.2, retry_seconds_max=0.5)


@pytest.fixture
async def store(own_postgres: EmbeddedPostgres) -> AsyncIterator[Store]:
    """A store on a server that the test may stop."""
    dsn = own_postgres.start()
    await migrate(dsn)
    opened = Store(StoreSettings(dsn=dsn, acquire_seconds=0.5))
    await opened.open()
    yield opened
    await opened.close()


async def _eventually(is_so: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


async def test_known_keys_go_on_working_and_nothing_is_missed_after_an_outage(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    keys = KeyBook(store)
    account = await AccountBook(store).create("Team A")
    stays, secret_of_stays = await keys.create(Role.RUNTIME, account.id, "stays")
    goes, secret_of_goes = await keys.create(Role.RUNTIME, account.id, "goes")
    mirror = KeyMirror(store, SystemClock(), SETTINGS)
    await mirror.load()
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(mirror.run())

        await asyncio.to_thread(own_postgres.stop)
        await _eventually(lambda: mirror.refresh_failures >= 2, 10)
        assert mirror.find(secret_of_stays.encode()) == stays
        assert await mirror.look_up(secret_of_goes.encode()) == goes
        began = time.monotonic()
        with pytest.raises(errors.StoreUnavailable):
            await mirror.look_up(b"psk_unknown")
        assert time.monotonic() - began < SETTINGS.miss_wait_seconds + 1
        assert mirror.age_seconds > 0.5

        await asyncio.to_thread(own_postgres.start)
        # Another process revokes while this one is still finding its way back.
        other = Store(StoreSettings(dsn=own_postgres.dsn))
        await other.open()
        await KeyBook(other).revoke(goes.id)
        new, secret_of_new = await KeyBook(other).create(Role.RUNTIME, account.id, "new")
        await _eventually(lambda: mirror.find(secret_of_goes.encode()) is None, 5)
        assert mirror.find(secret_of_stays.encode()) == stays
        assert await mirror.look_up(secret_of_new.encode()) == new
        with pytest.raises(errors.Unauthenticated):
            await mirror.look_up(b"psk_unknown")
        assert mirror.age_seconds < 5
        await other.close()
        loop.cancel()


async def test_a_mirror_that_starts_before_postgres_waits_for_it(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    key, secret = await KeyBook(store).create(Role.OPERATOR, None, "op")
    await asyncio.to_thread(own_postgres.stop)
    mirror = KeyMirror(store, SystemClock(), SETTINGS)
    async with asyncio.TaskGroup() as tasks:
        loading = tasks.create_task(mirror.load())
        await asyncio.sleep(1)
        assert not loading.done()
        await asyncio.to_thread(own_postgres.start)
    assert mirror.find(secret.encode()) == key


async def test_a_mirror_gives_up_loading_after_its_attempts(
    store: Store, own_postgres: EmbeddedPostgres
) -> None:
    await asyncio.to_thread(own_postgres.stop)
    mirror = KeyMirror(store, SystemClock(), PolicySettings(load_attempts_max=3))
    began = time.monotonic()
    with pytest.raises(errors.StoreUnavailable):
        await mirror.load()
    assert 1.0 < time.monotonic() - began < 10
