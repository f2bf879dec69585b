"""Leadership: one holder of a named lock in the whole cell, any number waiting.

The lock belongs to a Postgres session, so it ends with the holder's process or connection,
whichever goes first. The holder must ask `still_held` before it acts on being the only one.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from penstock.store.connection import Connection, naming_failures, severed_after
from penstock.store.settings import StoreSettings


class HeldLock:
    """A lock that was held when this was made."""

    def __init__(self, connection: Connection, ping_seconds: float) -> None:
        self._connection = connection
        self._ping_seconds = ping_seconds
        self._is_lost = False

    async def still_held(self) -> bool:
        """Ask Postgres. False is final: the session is gone, and the lock with it."""
        if self._is_lost:
            return False
        try:
            with severed_after(self._connection, self._ping_seconds):
                await self._connection.execute("select 1")
        except psycopg.Error:
            self._is_lost = True
        return not self._is_lost


@asynccontextmanager
async def hold(dsn: str, name: str, settings: StoreSettings) -> AsyncIterator[HeldLock]:
    """Wait for the lock, hold it for the block, let it go. StoreUnavailable if Postgres is away."""
    with naming_failures():
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    try:
        with naming_failures():
            with severed_after(connection, settings.lock_ping_seconds):
                await _notice_lost_holders(connection)
            # Asking again and again, not `pg_advisory_lock`: a session that waits in a statement
            # keeps its snapshot, and for as long as it waits no table can be vacuumed.
            while True:
                if await _try(connection, name, settings.lock_ping_seconds):
                    break
                await asyncio.sleep(settings.lock_poll_seconds)
        yield HeldLock(connection, settings.lock_ping_seconds)
    finally:
        await connection.close()


async def _try(connection: Connection, name: str, seconds: float) -> bool:
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
    with severed_after(connection, seconds):
        cursor = await connection.execute("select pg_try_advisory_lock(%s)", (key,))
        row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def _notice_lost_holders(connection: Connection) -> None:
    # A holder whose host lost its power sends no goodbye. The server would wait two hours for its
    # session; with these it gives the lock away after about 20 s.
    await connection.execute(
        "select set_config('tcp_keepalives_idle', '10', false),"
        " set_config('tcp_keepalives_interval', '5', false),"
        " set_config('tcp_keepalives_count', '2', false)"
    )
