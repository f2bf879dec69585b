"""Shared by all Postgres connections: default parameters, a time limit, and error translation.

A failure of the connection or the server becomes `errors.StoreUnavailable`; an error in a statement
is a bug and propagates as psycopg raised it.
"""

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock import errors

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


class PooledConnection(Connection):
    """A connection that knows when it answered last."""

    # As the event loop tells the time.
    answered_at = float("-inf")


# They detect a host that vanished silently within about 20 s. The dsn's own parameters win.
_DEFAULTS: dict[str, Any] = {
    "application_name": "penstock",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}
# psycopg does not raise these as OperationalError, though the server causes them: the connection
# is to a standby after a failover, or the session or its transaction exceeded a server timeout.
_SERVER_SIDE_STATES = frozenset({"25006", "25P03", "25P04"})


def complete_dsn(dsn: str, *, connect_seconds: int) -> str:
    """Return the dsn with our defaults for the parameters it does not set."""
    given = conninfo_to_dict(dsn)
    return make_conninfo("", **{**_DEFAULTS, "connect_timeout": connect_seconds, **given})


@contextmanager
def naming_failures() -> Iterator[None]:
    """Turn a failure of connection, pool or server into StoreUnavailable; re-raise other errors."""
    try:
        yield
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) or error.sqlstate in _SERVER_SIDE_STATES:
            # Callers see this message: it names the class only, as the text may name hosts, users.
            raise errors.StoreUnavailable(
                f"The database does not answer ({type(error).__name__})."
            ) from error
        raise


@contextmanager
def severed_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Cut the connection if the block takes longer than `seconds`.

    Cancelling the task is not enough: psycopg then asks the server to cancel and waits for its
    answer, which a hanging server never sends. Shutting the socket down ends the wait at once as a
    lost connection, which the pool replaces.
    """
    timer = asyncio.get_running_loop().call_later(seconds, _sever, connection)
    try:
        yield
    finally:
        timer.cancel()


def has_unread(connection: Connection) -> bool:
    """Return whether the server has sent something unasked, as it does when it closes."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


def _sever(connection: Connection) -> None:
    if connection.closed:
        return
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as ours:
        ours.shutdown(socket.SHUT_RDWR)
