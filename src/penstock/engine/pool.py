"""Pools keep-alive connections to one replica: uses the newest idle one first, closes old ones."""

import asyncio
import ssl
from urllib.parse import urlsplit

from penstock.clock import Clock
from penstock.engine.connection import Connection, IdleCallback
from penstock.engine.settings import EngineSettings
from penstock.errors import ReplicaUnreachable


class ConnectionPool(IdleCallback):
    """One replica's connections: at most `idle_connections_max` idle; admission bounds the rest."""

    def __init__(self, url: str, settings: EngineSettings, clock: Clock) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._settings = settings
        self._idle_seconds = settings.idle_seconds
        self._idle_max = settings.idle_connections_max
        self._monotonic = clock.monotonic
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._is_closed = False
        self._ssl = _tls_context(settings) if parts.scheme == "https" else None
        self.path = parts.path.rstrip("/")
        self.host_header = parts.netloc.rpartition("@")[2]

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def take_idle(self) -> Connection | None:
        """Return an idle connection without waiting; None when none is fresh enough."""
        oldest = self._monotonic() - self._idle_seconds
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_usable:
                continue
            if connection.idle_since >= oldest:
                return connection
            # The list is sorted by age, so all that remain are older still.
            connection.abort()
            self.close_idle()
        return None

    async def connect(self) -> Connection:
        """Open a new connection within the connect timeout."""
        loop = asyncio.get_running_loop()
        try:
            # Not wait_for: before Python 3.12 it can swallow a cancel, and the engine would run on.
            async with asyncio.timeout(self._settings.connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: Connection(self, self._settings.head_bytes_max),
                    self._host,
                    self._port,
                    ssl=self._ssl,
                )
        except (OSError, TimeoutError) as failure:
            # The reason holds the engine's address: it is for our log, not for the caller.
            raise ReplicaUnreachable("No connection to the engine.") from failure
        if not connection.is_usable:
            raise ReplicaUnreachable("The engine closed the connection at once.")
        # Not in connection_made: uvloop calls no connection_lost when opening was cancelled.
        self._open.add(connection)
        return connection

    def idle(self, connection: Connection) -> None:
        if self._is_closed or len(self._idle) >= self._idle_max:
            connection.abort()
            return
        connection.idle_since = self._monotonic()
        self._idle.append(connection)

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        # take_idle drops dead connections too; this keeps the list short while no request comes.
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Close idle connections; those in use are closed when their answer is complete."""
        self._is_closed = True
        self.close_idle()

    def close_idle(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()


def _tls_context(settings: EngineSettings) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=settings.ca_file or None)
