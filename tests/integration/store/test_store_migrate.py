"""Migrations against a real Postgres: once, in order, by any number of processes, never changed."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock import errors
from penstock.store import migrate, pending
from penstock.store.migrate import MIGRATIONS, MigrationChanged

_ALL = sorted(path.name for path in MIGRATIONS.glob("*.sql"))


async def test_migrating_twice_applies_everything_once(empty_dsn: str) -> None:
    assert await pending(empty_dsn) == _ALL
    assert await migrate(empty_dsn) == _ALL
    assert await migrate(empty_dsn) == []
    assert await pending(empty_dsn) == []


async def test_a_changed_migration_is_refused(empty_dsn: str, tmp_path: Path) -> None:
    await migrate(empty_dsn)
    folder = shutil.copytree(MIGRATIONS, tmp_path / "migrations")
    with (folder / _ALL[0]).open("a") as file:
        file.write("-- changed\n")
    with pytest.raises(MigrationChanged, match=_ALL[0]):
        await migrate(empty_dsn, folder)
    with pytest.raises(MigrationChanged, match=_ALL[0]):
        await pending(empty_dsn, folder)


async def test_a_failing_migration_leaves_nothing_behind(empty_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "0001_good.sql").write_text("create table good (n int);")
    (tmp_path / "0002_bad.sql").write_text("create table half (n int); select 1 from nowhere;")
    with pytest.raises(psycopg.errors.UndefinedTable):
        await migrate(empty_dsn, tmp_path)
    assert await pending(empty_dsn, tmp_path) == ["0002_bad.sql"]
    with psycopg.connect(empty_dsn) as connection:
        row = connection.execute("select to_regclass('good')::text, to_regclass('half')").fetchone()
    assert row == ("good", None)


async def test_a_migration_that_waits_for_a_lock_lets_others_pass_and_tries_again(
    empty_dsn: str, tmp_path: Path
) -> None:
    (tmp_path / "0001_busy.sql").write_text("create table busy (n int);")
    await migrate(empty_dsn, tmp_path)
    (tmp_path / "0002_wider.sql").write_text("alter table busy add column m int;")
    async with await psycopg.AsyncConnection.connect(empty_dsn) as holder:
        await holder.execute("select count(*) from busy")
        migrating = asyncio.ensure_future(migrate(empty_dsn, tmp_path))
        await asyncio.sleep(1.0)
        async with await psycopg.AsyncConnection.connect(empty_dsn) as other:
            # It queues behind the migration, which gives up its place after 2 seconds.
            await asyncio.wait_for(other.execute("select count(*) from busy"), 3.0)
        assert not migrating.done()
        await holder.rollback()
        assert await migrating == ["0002_wider.sql"]


async def test_a_file_without_transaction_may_create_an_index_concurrently(
    empty_dsn: str, tmp_path: Path
) -> None:
    (tmp_path / "0001_table.sql").write_text("create table wide (n int);")
    (tmp_path / "0002_index.sql").write_text(
        "-- no transaction\n"
        "drop index concurrently if exists wide_n;\n"
        "create index concurrently wide_n on wide (n);\n"
    )
    assert await migrate(empty_dsn, tmp_path) == ["0001_table.sql", "0002_index.sql"]
    with psycopg.connect(empty_dsn) as connection:
        query = "select indisvalid from pg_index where indexrelid = 'wide_n'::regclass"
        assert connection.execute(query).fetchone() == (True,)


async def test_older_code_leaves_newer_migrations_alone(empty_dsn: str, tmp_path: Path) -> None:
    await migrate(empty_dsn)
    folder = tmp_path / "migrations"
    folder.mkdir()
    shutil.copy(MIGRATIONS / _ALL[0], folder)
    assert await migrate(empty_dsn, folder) == []


async def test_a_badly_named_migration_is_refused(empty_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "later.sql").write_text("select 1;")
    with pytest.raises(AssertionError, match=r"later\.sql"):
        await migrate(empty_dsn, tmp_path)


async def test_an_absent_postgres_is_said_to_be_absent() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with pytest.raises(errors.StoreUnavailable):
        await migrate(f"postgresql://127.0.0.1:{port}/x")


def test_processes_that_migrate_at_once_apply_everything_once(empty_dsn: str) -> None:
    program = (
        "import asyncio, json, sys; from penstock.store import migrate;"
        "print(json.dumps(asyncio.run(migrate(sys.argv[1]))))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, empty_dsn], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    applied: list[str] = []
    for process in processes:
        output, _ = process.communicate(timeout=50)
        assert process.returncode == 0
        applied += json.loads(output)
    assert applied == _ALL


async def test_tasks_that_migrate_at_once_apply_everything_once(empty_dsn: str) -> None:
    done = await asyncio.gather(*(migrate(empty_dsn) for _ in range(8)))
    assert sorted(name for names in done for name in names) == _ALL


async def test_the_cell_has_one_secret_for_ever(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("select length(secret) from cell").fetchone()
        assert row == (32,)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into cell (secret) select secret from cell")
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("insert into cell select false, secret from cell")


@pytest.mark.parametrize("state", ["starting", "ready", "draining", "gone", "sleeping"])
async def test_the_roster_takes_only_states_that_exist(dsn: str, state: str) -> None:
    insert = (
        "insert into replicas (id, model, url, served_name, dialect, state, slots_live,"
        " generation, host, keeper, revision)"
        " values ('r', 'm', 'http://x', 's', 'vllm', %s, 8, 1, 'h', 'k', 1)"
    )
    with psycopg.connect(dsn) as connection:
        if state == "sleeping":
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(insert, (state,))
        else:
            assert connection.execute(insert, (state,)).rowcount == 1
