"""Migrates a database's tables to this version; any number of processes may migrate at once.

Each file of `migrations/` is applied once, in order, in its own transaction, and is recorded with
its hash. An applied file must never be edited: a changed one is refused. Recorded names that this
version does not know are ignored, so that older code runs with newer tables.

A migration never blocks a running cell. A statement that changes a table waits at most 2 seconds
for its lock, because every other statement on that table queues behind it; then the migration rolls
back and retries. A file whose first line is `-- no transaction` runs statement by statement, for
`create index concurrently`; if it fails half way, the next attempt runs all of it again.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psycopg

from penstock import errors
from penstock.store.connection import Connection, complete_dsn, naming_failures

MIGRATIONS = Path(__file__).parent / "migrations"

_NAME = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
_CONNECT_SECONDS = 10
# How long a process waits for another process that is migrating.
_WAIT_SECONDS = 120
# How long one statement of a migration waits for its lock, and how long all attempts may take.
_LOCK_SECONDS = 2
_TRIES_SECONDS = 120
_PAUSE_SECONDS = 1.0
_NO_TRANSACTION = b"-- no transaction\n"
# An arbitrary number that no other advisory lock in this database uses.
_LOCK_KEY = 0x70656E73746F636B


class MigrationChanged(Exception):
    """A migration that was applied before has been changed since."""


class _Migration(msgspec.Struct, frozen=True):
    name: str
    text: bytes
    sha256: str


async def migrate(dsn: str, folder: Path = MIGRATIONS) -> list[str]:
    """Apply the missing migrations, and return their names in order."""
    migrations = _read(folder)
    with naming_failures():
        async with _connected(dsn) as connection:
            # The session holds the lock, so Postgres releases it even if this process is killed.
            await connection.execute(f"set lock_timeout = '{_WAIT_SECONDS}s'")
            await connection.execute("select pg_advisory_lock(%s)", (_LOCK_KEY,))
            await connection.execute(
                "create table if not exists schema_migrations (name text primary key,"
                " sha256 text not null, applied_at timestamptz not null default now())"
            )
            missing = _missing(migrations, await _applied(connection))
            for migration in missing:
                await _apply(connection, migration)
            return [migration.name for migration in missing]


async def pending(dsn: str, folder: Path = MIGRATIONS) -> list[str]:
    """Return the names that `migrate` would apply. Changes nothing."""
    migrations = _read(folder)
    with naming_failures():
        async with _connected(dsn) as connection:
            return [each.name for each in _missing(migrations, await _applied(connection))]


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[Connection]:
    complete = complete_dsn(dsn, connect_seconds=_CONNECT_SECONDS)
    connection = await psycopg.AsyncConnection.connect(complete, autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


def _read(folder: Path) -> list[_Migration]:
    migrations = []
    for path in sorted(folder.glob("*.sql")):
        assert _NAME.fullmatch(path.name), (
            f"{path.name}: a migration is named NNNN_what_it_does.sql"
        )
        text = path.read_bytes()
        migrations.append(_Migration(path.name, text, hashlib.sha256(text).hexdigest()))
    return migrations


async def _applied(connection: Connection) -> dict[str, str]:
    cursor = await connection.execute("select to_regclass('schema_migrations') is not null")
    if await cursor.fetchone() == (False,):
        return {}
    rows = await connection.execute("select name, sha256 from schema_migrations")
    return {name: digest async for name, digest in rows}


def _missing(migrations: list[_Migration], applied: dict[str, str]) -> list[_Migration]:
    for migration in migrations:
        if applied.get(migration.name, migration.sha256) != migration.sha256:
            raise MigrationChanged(
                f"{migration.name} was changed after it was applied to this database. Put the file"
                " back as it was released and write the change as a new migration."
            )
    return [migration for migration in migrations if migration.name not in applied]


async def _apply(connection: Connection, migration: _Migration) -> None:
    """Apply one migration; retry while other transactions hold the locks it needs."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _TRIES_SECONDS
    while True:
        try:
            if migration.text.startswith(_NO_TRANSACTION):
                await _run_statements(connection, migration)
            else:
                await _run_transaction(connection, migration)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as locked:
            if loop.time() > deadline:
                raise errors.StoreUnavailable(
                    f"{migration.name} found its tables locked by other transactions for"
                    f" {_TRIES_SECONDS} s. End those and run `penstock migrate` again."
                ) from locked
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


async def _run_transaction(connection: Connection, migration: _Migration) -> None:
    async with connection.transaction():
        await connection.execute(f"set local lock_timeout = '{_LOCK_SECONDS}s'")
        await connection.execute(migration.text)
        await _record(connection, migration)


async def _run_statements(connection: Connection, migration: _Migration) -> None:
    # Statements that need this form block no readers or writers, so they may wait longer.
    for statement in migration.text.split(b";\n"):
        if statement.strip():
            await connection.execute(statement)
    await _record(connection, migration)


async def _record(connection: Connection, migration: _Migration) -> None:
    await connection.execute(
        "insert into schema_migrations (name, sha256) values (%s, %s)",
        (migration.name, migration.sha256),
    )
