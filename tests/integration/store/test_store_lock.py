"""Leadership against a real Postgres: one holder, and the next one when it is gone."""

import asyncio
import sys

import psycopg
import pytest

from penstock import errors
from penstock.store import HeldLock, Store, StoreSettings
from penstock.store.embedded import EmbeddedPostgres

_FIND_HOLDER = "select pid from pg_locks join pg_database d on d.oid = database where granted" + (
    " and locktype = 'advisory' and datname = current_database()"
)


class Contender:
    """One process's try for the lock, told to let go by `release`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.has_it = asyncio.Event()
        self.release = asyncio.Event()
        self.lock: HeldLock | None = None

    async def run(self) -> None:
        async with self._store.hold_lock("leader") as self.lock:
            self.has_it.set()
            await self.release.wait()


@pytest.fixture
def impatient(dsn: str) -> Store:
    """A store whose waiters ask often, so that the tests need not wait long."""
    return Store(StoreSettings(dsn=dsn, lock_poll_seconds=0.05, lock_ping_seconds=1.0))


def _kill_holder(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        holders = connection.execute(_FIND_HOLDER).fetchall()
        assert len(holders) == 1
        connection.execute("select pg_terminate_backend(%s)", holders[0])


async def test_one_holds_and_the_other_waits_until_it_lets_go(impatient: Store) -> None:
    first, second = Contender(impatient), Contender(impatient)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        await first.has_it.wait()
        tasks.create_task(second.run())
        await asyncio.sleep(0.4)
        assert not second.has_it.is_set()
        assert first.lock is not None
        assert await first.lock.still_held()
        first.release.set()
        async with asyncio.timeout(5):
            await second.has_it.wait()
        second.release.set()


async def test_the_other_takes_over_when_the_holders_connection_is_killed(
    impatient: Store, dsn: str
) -> None:
    first, second = Contender(impatient), Contender(impatient)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        await first.has_it.wait()
        tasks.create_task(second.run())
        _kill_holder(dsn)
        async with asyncio.timeout(5):
            await second.has_it.wait()
        assert first.lock is not None
        assert second.lock is not None
        assert not await first.lock.still_held()
        assert not await first.lock.still_held()
        assert await second.lock.still_held()
        first.release.set()
        second.release.set()


async def test_the_lock_of_a_killed_process_is_free(impatient: Store, dsn: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from penstock.store import StoreSettings, Store\n"
        "async def main():\n"
        "    async with Store(StoreSettings(dsn=sys.argv[1])).hold_lock('leader'):\n"
        "        print('held', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, dsn, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    second = Contender(impatient)
    second.release.set()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(second.run())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        holder.kill()
        await holder.wait()
        async with asyncio.timeout(5):
            await waiting


async def test_locks_of_different_names_are_different(impatient: Store) -> None:
    async with impatient.hold_lock("one"), asyncio.timeout(5), impatient.hold_lock("two") as two:
        assert await two.still_held()


async def test_waiting_for_a_lock_ends_when_postgres_goes(own_postgres: EmbeddedPostgres) -> None:
    store = Store(StoreSettings(dsn=own_postgres.start(), lock_poll_seconds=0.05))
    second = Contender(store)
    async with store.hold_lock("leader") as first:
        waiting = asyncio.ensure_future(second.run())
        await asyncio.sleep(0.2)
        own_postgres.stop()
        with pytest.raises(errors.StoreUnavailable):
            await waiting
        assert not await first.still_held()
    with pytest.raises(errors.StoreUnavailable):
        async with store.hold_lock("leader"):
            pass
