"""Journals on their way into Postgres: through kills, outages, bad rows and dead workers."""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.metering_lines import (
    Worker,
    added_up,
    attempts,
    halves,
    hours,
    id_at,
    names_in,
)
from tests.unit.metering.journal_files import lay_out, one_attempt

from penstock.clock import new_id
from penstock.errors import StoreUnavailable
from penstock.metering import MeteringSettings
from penstock.metering.journal import take_lock
from penstock.metering.journal_format import CLOSED, OPENED, frame
from penstock.records.price import Price
from penstock.records.usage import Usage
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from penstock.wire.engine_usage import write_usage

QUICK = MeteringSettings(
    segment_bytes=2**16,
    journal_bytes_max=2**20,
    open_max=64,
    drain_seconds=0.05,
    drain_rows_max=7,
    drain_retry_seconds_max=0.2,
    last_drain_seconds=2.0,
    adopt_seconds=0.2,
)
FREE = Price()


async def eventually(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


@pytest.fixture
def nowhere() -> Store:
    """A store whose Postgres does not answer."""
    return Store(StoreSettings(dsn="host=127.0.0.1 port=1", acquire_seconds=0.1))


async def test_journal_is_emptied_and_removed_when_its_worker_ends(
    store: Store, tmp_path: Path
) -> None:
    worker = Worker(store, tmp_path, QUICK)
    for _ in range(50):
        worker.write()
    worker.refusals.count(0.0, "a", "k", "r")
    await worker.drain.finish()
    assert worker.released == [worker.journal.holder]
    assert names_in(tmp_path) == []
    assert (len(await attempts(store)), worker.drain.rows_written) == (50, 50)
    assert worker.refusals.waiting() == 0


async def test_journal_with_an_open_attempt_is_left_for_the_next_worker(
    store: Store, tmp_path: Path
) -> None:
    worker = Worker(store, tmp_path, QUICK)
    worker.write()
    slot = worker.begin(halves()[0])
    worker.journal.slots.note(slot, write_usage(Usage(10, 3)))
    await worker.drain.finish()
    assert worker.released == [], "its leases are not free yet"
    following = Worker(store, tmp_path, QUICK)
    await following.drain.adopt()
    assert following.released == [worker.journal.holder]
    rows = await attempts(store)
    assert [row["outcome"] for row in rows] == ["ok", "interrupted"]
    assert (rows[1]["prompt_tokens"], rows[1]["output_tokens"]) == (10, 3)
    await following.drain.finish()
    assert names_in(tmp_path) == []


async def test_journal_waits_for_the_next_start_when_postgres_is_away(
    store: Store, nowhere: Store, tmp_path: Path
) -> None:
    await nowhere.open()
    worker = Worker(nowhere, tmp_path, QUICK)
    worker.write()
    await worker.drain.finish()
    await nowhere.close()
    following = Worker(store, tmp_path, QUICK)
    await following.drain.adopt()
    assert len(await attempts(store)) == 1
    await following.drain.finish()
    assert names_in(tmp_path) == []


async def test_orphans_wait_while_postgres_is_away(nowhere: Store, tmp_path: Path) -> None:
    await nowhere.open()
    orphan = lay_out(tmp_path, b"".join(_pair()))
    worker = Worker(nowhere, tmp_path, QUICK)
    with pytest.raises(StoreUnavailable):
        await worker.drain.adopt()
    await nowhere.close()
    assert orphan.is_dir()
    lock = take_lock(orphan)
    assert lock is not None, "whoever comes next may have it"
    os.close(lock)
    worker.journal.remove()


@pytest.mark.parametrize("seconds", [0.0, 0.2])
async def test_last_drain_takes_no_longer_than_it_may(
    nowhere: Store, tmp_path: Path, seconds: float
) -> None:
    await nowhere.open()
    settings = MeteringSettings(segment_bytes=2**16, open_max=64, last_drain_seconds=seconds)
    worker = Worker(nowhere, tmp_path, settings)
    worker.write()
    async with asyncio.timeout(5):
        await worker.drain.finish()
    await nowhere.close()
    assert worker.journal.folder.is_dir()


async def test_dead_workers_journal_is_closed_with_the_last_usage_seen(
    store: Store, tmp_path: Path
) -> None:
    dead = Worker(store, tmp_path, QUICK)
    for _ in range(20):
        dead.write()
    for made in range(15):
        slot = dead.begin(halves()[0])
        if made:
            dead.journal.slots.note(slot, write_usage(Usage(100, made)))
    dead.journal.leave()
    worker = Worker(store, tmp_path, QUICK)
    await worker.drain.adopt()
    assert (worker.drain.adopted, worker.released) == (1, [dead.journal.holder])
    rows = (await attempts(store))[20:]
    assert [row["output_tokens"] for row in rows] == [None, *range(1, 15)]
    assert {row["outcome"] for row in rows} == {"interrupted"}
    assert all(row["charge_nanousd"] > 0 for row in rows[1:])
    assert rows[0]["charge_nanousd"] == 0
    assert not dead.journal.folder.exists()
    await worker.drain.finish()
    assert names_in(tmp_path) == []


async def test_living_workers_journal_is_left_alone(store: Store, tmp_path: Path) -> None:
    workers = [Worker(store, tmp_path, QUICK) for _ in range(2)]
    workers[0].write()
    await workers[1].drain.adopt()
    assert workers[1].drain.adopted == 0
    assert await attempts(store) == []
    for worker in workers:
        await worker.drain.finish()


async def test_orphan_is_adopted_by_exactly_one_of_many(store: Store, tmp_path: Path) -> None:
    for _ in range(5):
        lay_out(tmp_path, b"".join([*_pair(), *_pair(), *_pair()]))
    workers = [Worker(store, tmp_path, QUICK) for _ in range(4)]
    await asyncio.gather(*(worker.drain.adopt() for worker in workers))
    for worker in workers:
        await worker.drain.adopt()
    assert sum(worker.drain.adopted for worker in workers) == 5
    assert sum(worker.drain.rows_written for worker in workers) == 15
    assert len(await attempts(store)) == 15
    for worker in workers:
        await worker.drain.finish()
    assert names_in(tmp_path) == []


def _pair(slot: int = 0) -> tuple[bytes, bytes]:
    opened, closed = halves()
    return frame(OPENED, slot, opened), frame(CLOSED, slot, closed)


async def test_journal_that_cannot_be_read_holds_up_neither_others_nor_a_start(
    store: Store, tmp_path: Path
) -> None:
    bad = lay_out(tmp_path, one_attempt()[0])
    (bad / "not a number.journal").touch()
    lay_out(tmp_path, b"".join(_pair()))
    worker = Worker(store, tmp_path, QUICK)
    await worker.drain.adopt()
    assert len(await attempts(store)) == 1
    assert worker.drain.failures == 1
    assert bad.is_dir(), "it stays, for people"
    await worker.drain.finish()


async def test_folders_that_are_no_journals_are_left_alone(store: Store, tmp_path: Path) -> None:
    for name in ("lost+found", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").touch()
    lost_lock = take_lock(tmp_path / new_id())
    assert lost_lock is not None
    os.close(lost_lock)
    worker = Worker(store, tmp_path, QUICK)
    await worker.drain.adopt()
    assert worker.drain.failures == 0
    assert (tmp_path / "data" / "precious").exists()
    assert (tmp_path / "lost+found" / "precious").exists()
    await worker.drain.finish()


async def test_orphan_that_is_gone_when_it_is_locked_leaves_no_lock(
    store: Store, tmp_path: Path
) -> None:
    worker = Worker(store, tmp_path, QUICK)
    await worker.drain._adopt_one(tmp_path / new_id())
    assert worker.drain.adopted == 0
    await worker.drain.finish()
    assert names_in(tmp_path) == []


async def test_row_that_postgres_refuses_is_put_aside_and_all_others_get_in(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(store, tmp_path, QUICK)
    bad: list[dict[str, Any]] = [
        {"usage": Usage(2**31, 2**31), "price": FREE, "client_retry": 70_000},
        {"id": id_at(2**47 / 1000 + 10**13)},
        {"id": "not-an-id"},
    ]
    for number in range(60):
        worker.write(**(bad[number % 3] if number % 20 == 7 else {}))
    with caplog.at_level(logging.ERROR):
        await worker.drain.finish()
    assert len(await attempts(store)) == 57
    assert (worker.drain.rows_written, worker.drain.rows_unwritable) == (57, 3)
    assert names_in(tmp_path) == ["unwritable.tsv"]
    assert len((tmp_path / "unwritable.tsv").read_bytes().splitlines()) == 3
    assert len(caplog.records) == 3


async def test_rows_wait_while_a_table_is_missing(store: Store, tmp_path: Path) -> None:
    """A gateway that is newer than the schema, or has lost a right: no row is to blame for that."""
    worker = Worker(store, tmp_path, QUICK)
    worker.write()
    async with store.transaction() as transaction:
        await transaction.execute("alter table usage_hours rename to elsewhere")
    async with asyncio.TaskGroup() as group:
        loop = group.create_task(worker.drain.run())
        await eventually(lambda: worker.drain.failures >= 3)
        worker.write()
        async with store.transaction() as transaction:
            await transaction.execute("alter table elsewhere rename to usage_hours")
        await eventually(lambda: worker.drain.rows_written == 2)
        loop.cancel()
    assert worker.drain.rows_unwritable == 0
    await worker.drain.finish()
    assert len(await attempts(store)) == 2
    assert names_in(tmp_path) == []


async def test_loop_drains_and_adopts_while_requests_go_on(store: Store, tmp_path: Path) -> None:
    worker = Worker(store, tmp_path, QUICK)
    async with asyncio.TaskGroup() as group:
        loop = group.create_task(worker.drain.run())
        slot = worker.begin(halves()[0])
        for number in range(600):
            worker.write(session="x" * 200)
            if number == 300:
                lay_out(tmp_path, b"".join(_pair()))
            if not number % 20:
                await asyncio.sleep(0.01)
        await eventually(lambda: worker.drain.rows_written == 601)
        assert worker.drain.adopted == 1
        names = sorted(path.name for path in worker.journal.folder.glob("*.journal"))
        assert names[0] == "00000001.journal", "an attempt that began there is open"
        assert len(names) <= 3
        worker.end(slot, halves()[1])
        await eventually(lambda: worker.drain.rows_written == 602)
        loop.cancel()
    assert worker.drain.failures == 0
    await worker.drain.finish()
    (hour,) = await hours(store)
    assert hour["attempts"] == 602


@pytest.fixture
async def own_store(own_postgres: EmbeddedPostgres) -> AsyncIterator[Store]:
    """A store on a server that the test may stop."""
    dsn = own_postgres.start()
    await migrate(dsn)
    opened = Store(StoreSettings(dsn=dsn, acquire_seconds=0.5))
    await opened.open()
    yield opened
    await opened.close()


async def test_nothing_is_lost_or_doubled_when_postgres_goes_and_comes_back(
    own_store: Store, own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    worker = Worker(own_store, tmp_path, QUICK)
    async with asyncio.TaskGroup() as group:
        loop = group.create_task(worker.drain.run())
        for number in range(40):
            worker.write()
            worker.refusals.count(0.0, "a", "k", "r")
            if number == 10:
                await asyncio.to_thread(own_postgres.stop)
                await eventually(lambda: worker.drain.failures >= 2)
            await asyncio.sleep(0.005)
        with pytest.raises(StoreUnavailable):
            await worker.drain.empty()
        assert worker.refusals.waiting() == 1
        await asyncio.to_thread(own_postgres.start)
        await eventually(lambda: worker.refusals.waiting() == 0)
        loop.cancel()
    await worker.drain.finish()
    rows = await attempts(own_store)
    assert len(rows) == 40
    (hour,) = await hours(own_store)
    assert hour["charge_nanousd"] == added_up(rows)["charge_nanousd"]


_DIES_BEFORE_DELETING = """
import asyncio, os, signal, sys
from pathlib import Path
from penstock.clock import new_id
from penstock.metering import Drain, Journal, Ledger, Refusals, MeteringSettings
from penstock.store import StoreSettings, Store

async def die(holder):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store = Store(StoreSettings(dsn=sys.argv[1]))
    await store.open()
    settings = MeteringSettings(segment_bytes=2**16, open_max=64)
    journal = Journal(Path(sys.argv[2]), new_id(), settings)
    drain = Drain(journal, Ledger(store, 10), Refusals(store, 10), settings, die)
    await drain.adopt()

asyncio.run(main())
"""


async def test_kill_between_commit_and_deletion_doubles_nothing(
    store: Store, dsn: str, tmp_path: Path
) -> None:
    orphan = lay_out(tmp_path, b"".join([*_pair(), *_pair(), _pair()[0]]))
    command = [sys.executable, "-c", _DIES_BEFORE_DELETING, dsn, str(tmp_path)]
    died = await asyncio.to_thread(subprocess.run, command, timeout=40, check=False)
    assert died.returncode == -signal.SIGKILL
    before = (await attempts(store), await hours(store))
    assert len(before[0]) == 3
    assert orphan.is_dir()
    worker = Worker(store, tmp_path, QUICK)
    await worker.drain.adopt()
    # The orphan, and the journal of whoever died over it.
    assert worker.drain.adopted == 2
    assert (await attempts(store), await hours(store)) == before
    await worker.drain.finish()
    assert names_in(tmp_path) == []


async def test_same_journal_put_back_three_times_adds_nothing(store: Store, tmp_path: Path) -> None:
    dead = Worker(store, tmp_path / "first", QUICK)
    for _ in range(30):
        dead.write(session="s")
    dead.journal.slots.note(dead.begin(halves()[0]), write_usage(Usage(7, 7)))
    dead.journal.leave()
    seen = []
    for number in range(3):
        place = tmp_path / str(number)
        shutil.copytree(dead.journal.folder, place / dead.journal.folder.name)
        worker = Worker(store, place, QUICK)
        await worker.drain.adopt()
        await worker.drain.finish()
        seen.append((await attempts(store), await hours(store)))
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0][0]) == 31
