"""The control processes of a cell: one leads, another takes over; losing Postgres ends neither."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.app.control import ControlLoops
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres


@pytest.fixture
async def postgres() -> AsyncIterator[EmbeddedPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    try:
        await migrate(await asyncio.to_thread(server.start))
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@asynccontextmanager
async def control(dsn: str) -> AsyncIterator[ControlLoops]:
    settings = StoreSettings(dsn=dsn, lock_poll_seconds=0.1, lock_ping_seconds=0.2)
    config = Config(store=settings)
    store = Store(settings)
    await store.open()
    made = ControlLoops(config, store, SystemClock())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run())
        yield made
        running.cancel()
    await store.close()


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while True:
            if claim():
                return
            await asyncio.sleep(0.02)


async def test_one_leads_and_the_other_takes_over_when_it_ends(postgres: EmbeddedPostgres) -> None:
    async with control(postgres.dsn) as second:
        async with control(postgres.dsn) as first:
            await until(lambda: first.is_leading or second.is_leading)
            await asyncio.sleep(0.5)
            assert [first.is_leading, second.is_leading].count(True) == 1
        await until(lambda: second.is_leading)
        assert not first.is_leading


async def test_leadership_ends_with_postgres_and_comes_back_with_it(
    postgres: EmbeddedPostgres,
) -> None:
    async with control(postgres.dsn) as only:
        await until(lambda: only.is_leading)
        await asyncio.to_thread(postgres.stop)
        await until(lambda: not only.is_leading)
        await asyncio.to_thread(postgres.start)
        await until(lambda: only.is_leading)
