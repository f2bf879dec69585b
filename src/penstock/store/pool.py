"""Runs Postgres transactions on a connection pool that reconnects by itself.

Guarantees: `open` never waits for Postgres; every wait has a timeout; every failure of connection
or server is `errors.StoreUnavailable`. It knows no table: SQL lives in the room that owns it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, LiteralString

from psycopg_pool import AsyncConnectionPool

from penstock.errors import StoreUnavailable
from penstock.store.connection import (
    Connection,
    PooledConnection,
    complete_dsn,
    has_unread,
    naming_failures,
    severed_after,
)
from penstock.store.copying import PieceWriter, in_pieces
from penstock.store.lock import HeldLock, hold
from penstock.store.settings import StoreSettings

Row = tuple[Any, ...]

# A connection that answered so lately is used again without asking.
_TRUSTED_SECONDS: Final = 0.5


class Transaction:
    """One open transaction, committed when its block ends without error. Placeholders are `%s`."""

    __slots__ = ("_connection", "_prepare")

    def __init__(self, connection: Connection, *, prepare: bool | None = None) -> None:
        self._connection = connection
        # psycopg's option: None prepares statements that are run often, False none.
        self._prepare = prepare

    async def execute(self, sql: LiteralString, params: Sequence[object] = ()) -> int:
        """Run a statement and return the number of affected rows."""
        cursor = await self._connection.execute(sql, params, prepare=self._prepare)
        return cursor.rowcount

    async def fetch(
        self, sql: LiteralString, params: Sequence[object] = (), *, binary: bool = False
    ) -> list[Row]:
        """Return all rows. The statement must contain its own limit.

        Use `binary` for rows with content: as text, each byte of it takes two.
        """
        cursor = await self._connection.execute(sql, params, prepare=self._prepare, binary=binary)
        return await cursor.fetchall()

    async def copy(self, sql: LiteralString, lines: Iterable[bytes]) -> None:
        """Run `copy ... from stdin` with lines in its text format."""
        async with (
            self._connection.cursor() as cursor,
            cursor.copy(sql, writer=PieceWriter(cursor)) as copying,
        ):
            for piece in in_pieces(lines):
                await copying.write(piece)

    async def fetch_one(self, sql: LiteralString, params: Sequence[object] = ()) -> Row | None:
        """Return the first row, or None."""
        cursor = await self._connection.execute(sql, params, prepare=self._prepare)
        return await cursor.fetchone()


class Store:
    """A process's connections to one Postgres."""

    def __init__(self, settings: StoreSettings) -> None:
        assert settings.dsn, "the store needs a dsn; an empty one is for `penstock up` to fill in"
        self._settings = settings
        self._dsn = complete_dsn(settings.dsn, connect_seconds=settings.connect_seconds)
        self._pool: AsyncConnectionPool[PooledConnection] | None = None

    @property
    def settings(self) -> StoreSettings:
        return self._settings

    async def open(self) -> None:
        """Start connecting in the background. Returns at once, whether Postgres answers or not."""
        settings = self._settings
        self._pool = AsyncConnectionPool(
            self._dsn,
            connection_class=PooledConnection,
            kwargs={"autocommit": True},
            min_size=settings.pool_size_min,
            max_size=settings.pool_size_max,
            max_waiting=settings.pool_waiting_max,
            timeout=settings.acquire_seconds,
            reconnect_timeout=settings.reconnect_seconds,
            configure=self._configure,
            check=self._check,
            open=False,
            name="store",
        )
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close the pool. Running transactions keep their connections until they end."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    @asynccontextmanager
    async def transaction(self, *, prepare: bool | None = None) -> AsyncIterator[Transaction]:
        """Open a transaction: commit at the block's end, roll back on an error.

        With `prepare=False` Postgres plans each statement for its own parameters. The generic plan
        of a prepared one cannot use the index of one session, nor leave out partitions of other
        days.

        After StoreUnavailable at the block's end the commit may or may not have happened, so a
        retried block must be idempotent.
        """
        async with self._connection() as connection, connection.transaction():
            yield Transaction(connection, prepare=prepare)

    @asynccontextmanager
    async def statement(self, *, prepare: bool | None = None) -> AsyncIterator[Transaction]:
        """Run one statement, which commits by itself: this saves two of four round trips.

        `prepare` is that of `transaction`.
        """
        async with self._connection() as connection:
            yield Transaction(connection, prepare=prepare)

    def hold_lock(self, name: str) -> AbstractAsyncContextManager[HeldLock]:
        """Wait until this process holds the lock `name`, on a dedicated connection."""
        return hold(self._dsn, name, self._settings)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        assert self._pool is not None, "the store is not open"
        asked = _cancels_asked()
        try:
            with naming_failures():
                async with self._pool.connection() as connection:
                    _raise_if_cancelled(asked)
                    with severed_after(connection, self._settings.transaction_seconds):
                        yield connection
                        connection.answered_at = asyncio.get_running_loop().time()
        except StoreUnavailable:
            _raise_if_cancelled(asked)
            raise

    async def _configure(self, connection: Connection) -> None:
        # Startup `options` would replace the operator's own, and PgBouncer refuses them.
        settings = self._settings
        with severed_after(connection, settings.connect_seconds):
            await connection.execute(
                "select set_config('statement_timeout', %s, false),"
                " set_config('idle_in_transaction_session_timeout', %s, false)",
                (
                    f"{settings.statement_seconds * 1000:.0f}",
                    f"{settings.transaction_seconds * 1000:.0f}",
                ),
            )

    async def _check(self, connection: PooledConnection) -> None:
        """Raise if a connection has died or hangs, so that a restart causes no callers' errors.

        Asking costs a round trip, as much CPU as a short statement. So one that has just answered
        is asked only if there is something to read from it: a server that closes says so.
        """
        idle = asyncio.get_running_loop().time() - connection.answered_at
        if idle < _TRUSTED_SECONDS and not has_unread(connection):
            return
        with severed_after(connection, self._settings.acquire_seconds):
            await connection.execute("")


def _cancels_asked() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _raise_if_cancelled(asked_before: int) -> None:
    """Raise a cancellation that was lost while waiting for a connection.

    `asyncio.wait_for` of Python 3.11, which the pool uses, drops a cancellation that arrives
    together with its result: 1 in 8 cancellations of tasks that shared one connection was lost, and
    a loop that lost its cancellation ran forever.
    """
    if _cancels_asked() > asked_before:
        raise asyncio.CancelledError
