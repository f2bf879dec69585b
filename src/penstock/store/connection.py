"""What every connection to Postgres shares: parameters, an end, and names for its failures.

A failure of the connection or of the server is `errors.StoreUnavailable`; a mistake in a statement
is a programmer's error and goes up as psycopg raised it.
"""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock import errors

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

# A host that vanishes without a word is noticed in about 20 s. What the dsn says wins over these.
_DEFAULTS: dict[str, Any] = {
    "application_name": "penstock",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}
# Not OperationalErrors in psycopg's eyes, yet the server's doing and not the statement's: we were
# left on a standby after a failover, or the session was idle in its transaction for too long.
_SERVER_SIDE_STATES = frozenset({"25006", "25P03", "25P04"})


def complete_dsn(dsn: str, *, connect_seconds: int) -> str:
    """The dsn with our defaults for what it does not say."""
    given = conninfo_to_dict(dsn)
    return make_conninfo("", **{**_DEFAULTS, "connect_timeout": connect_seconds, **given})


@contextmanager
def naming_failures() -> Iterator[None]:
    """Turn a failure of connection, pool or server into StoreUnavailable; let the rest pass."""
    try:
        yield
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) or error.sqlstate in _SERVER_SIDE_STATES:
            # The class says enough; the text may name hosts and users, and this goes to callers.
            raise errors.StoreUnavailable(
                f"The database does not answer ({type(error).__name__})."
            ) from error
        raise


@contextmanager
def severed_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Cut the connection if the block is not done in time.

    Cancelling would not do: psycopg then asks the server to cancel and waits for its word, and a
    server that hangs gives none. A socket that is shut down ends the wait at once, as a lost
    connection, which the pool replaces.
    """
    timer = asyncio.get_running_loop().call_later(seconds, _sever, connection)
    try:
        yield
    finally:
        timer.cancel()


def _sever(connection: Connection) -> None:
    if connection.closed:
        return
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as ours:
        ours.shutdown(socket.SHUT_RDWR)
