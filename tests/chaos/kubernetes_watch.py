"""Looks at the roster of a cell on a cluster all the time: what must never be seen there."""

import asyncio
import time

from penstock.fleet.hosts import HostReports
from penstock.fleet.replica_rows import ReplicaRow, ReplicaRows
from penstock.records.replica import ReplicaState
from penstock.store import Store

_LOOK_SECONDS = 0.25
# What a killed keeper had sent to Postgres may be written this much later.
_WRITING_SECONDS = 1.0


class RosterWatch:
    """Rows as they were read last, and ids that were seen twice."""

    def __init__(self, store: Store) -> None:
        self._rows = ReplicaRows(store)
        self._hosts = HostReports(store)
        self._gone: set[str] = set()
        self._urls: dict[str, str] = {}
        self.rows: list[ReplicaRow] = []
        # Ids that came back after they were gone, or moved to another pod.
        self.doubles: set[str] = set()

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> list[ReplicaRow]:
        self.rows = await self._rows.read(with_gone=True)
        for row in self.rows:
            if row.state is ReplicaState.GONE:
                self._gone.add(row.id)
            elif row.id in self._gone:
                self.doubles.add(row.id)
            if row.url and self._urls.setdefault(row.id, row.url) != row.url:
                self.doubles.add(row.id)
        return self.rows

    def ready(self) -> dict[str, ReplicaRow]:
        return {row.id: row for row in self.rows if row.state is ReplicaState.READY}

    def find(self, replica: str) -> ReplicaRow:
        return next(row for row in self.rows if row.id == replica)

    async def until_ready(
        self, count: int, seconds: float, without: set[str] | None = None
    ) -> bool:
        """Wait until so many are ready, none of `without` among them, and nothing starts."""
        for _ in range(int(seconds / _LOOK_SECONDS)):
            rows = await self.look()
            alive = [row for row in rows if row.state is not ReplicaState.GONE]
            ready = [row.id for row in alive if row.state is ReplicaState.READY]
            if len(alive) == len(ready) == count and not set(ready) & (without or set()):
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    async def until_keeper_reports(self, seconds: float) -> bool:
        """Wait until the pool's keeper has written a heartbeat that is newer than this call."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            silences = [
                host.silent_seconds for host in await self._hosts.read() if host.report.pool
            ]
            if any(silence < passed - _WRITING_SECONDS for silence in silences):
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False
