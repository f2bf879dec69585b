"""Leader election: a named lock with one holder in the whole cell and any number of waiters.

The lock belongs to a Postgres session, so it ends with the holder's process or connection,
whichever ends first. The holder must call `still_held` before it acts as the only leader.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from penstock.store.connection import Connection, naming_failures, severed_after
from penstock.store.settings import StoreSettings


class HeldLock:
    """A lock that this process acquired, and may have lost since."""

    def __init__(self, connection: Connection, ping_seconds: float) -> None:
        self._connection = connection
        self._ping_seconds = ping_seconds
        self._is_lost = False

    async def still_held(self) -> bool:
        """Check with Postgres. False is final: the session is lost, and the lock with it."""
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
    """Wait for the lock, and hold it for the block. StoreUnavailable if Postgres is unreachable."""
    with naming_failures():
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    try:
        with naming_failures():
            with severed_after(connection, settings.lock_ping_seconds):
                await _notice_lost_holders(connection)
            # Polling, not `pg_advisory_lock`: a session that waits inside a statement keeps its
            # snapshot, which prevents vacuum on all tables for as long as it waits.
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
    # A holder whose host loses power does not close its session. The server would keep the session
    # for two hours; with these settings it releases the lock after about 20 s.
    await connection.execute(
        "select set_config('tcp_keepalives_idle', '10', false),"
        " set_config('tcp_keepalives_interval', '5', false),"
        " set_config('tcp_keepalives_count', '2', false)"
    )
