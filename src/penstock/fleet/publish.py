"""Keeps the roster in Postgres equal to the keeper's memory.

It compares and writes the differences, so after an outage of any length one write catches up and
nothing is queued. A replica for which the roster has a newer generation is marked as superseded.
"""

import logging
from collections.abc import Mapping

from penstock.clock import Clock
from penstock.errors import GenerationStale
from penstock.fleet.known import Known, WatchedReplica
from penstock.fleet.roster import RosterTable
from penstock.records.replica import LoadFigures, ReplicaId, ReplicaState

_log = logging.getLogger(__name__)


class Publisher:
    """Writes one keeper's rows of the roster."""

    def __init__(self, table: RosterTable, known: Known, clock: Clock, keeper: str) -> None:
        self._table = table
        self._known = known
        self._clock = clock
        self._keeper = keeper
        self._has_swept = False

    async def publish(self, loads: Mapping[ReplicaId, LoadFigures] | None = None) -> None:
        """Write differences, heartbeats and what engines report of their load.

        Raises StoreUnavailable; call again to catch up.
        """
        if not self._has_swept:
            # A replica may have ended before this keeper's restart without being written as gone.
            kept = [*self._known.replicas, *self._known.ended]
            await self._table.give_up_others(self._keeper, kept)
            self._has_swept = True
        for replica, entry in list(self._known.ended.items()):
            await self._write(entry)
            self._known.ended.pop(replica, None)
        for entry in list(self._known.replicas.values()):
            if entry.is_news and not (entry.is_superseded or self._is_ghost(entry)):
                await self._write(entry)
        await self._beat(loads or {})

    def _is_ghost(self, entry: WatchedReplica) -> bool:
        """Return whether a replica that this keeper has not listed is no longer placed here.

        It is listed when it drains, so that nobody sends anything there meanwhile.
        """
        assigned, own = self._known.orders.assigned, entry.replica.assignment
        is_draining = entry.replica.state is ReplicaState.DRAINING
        if entry.written is not None or is_draining or not own or assigned is None:
            return False
        return own not in {each.id for each in assigned}

    async def _write(self, entry: WatchedReplica) -> None:
        # Read once: the reconcile loop may move the replica during the wait for Postgres.
        replica, detail = entry.replica, entry.detail
        try:
            if entry.written is None:
                await self._table.enroll(replica, keeper=self._keeper, detail=detail)
            else:
                await self._table.change(replica, detail=detail)
        except GenerationStale:
            self._supersede(entry)
            return
        entry.written, entry.written_detail = replica, detail
        entry.written_at = self._clock.monotonic()

    async def _beat(self, loads: Mapping[ReplicaId, LoadFigures]) -> None:
        listed = [
            entry
            for entry in self._known.replicas.values()
            if entry.written is not None and not entry.is_superseded
        ]
        written = [e.written for e in listed if e.written is not None]
        lost = await self._table.beat(written, loads)
        for entry in listed:
            if entry.replica.id in lost and entry.replica.state is not ReplicaState.GONE:
                self._supersede(entry)

    def _supersede(self, entry: WatchedReplica) -> None:
        entry.is_superseded = True
        extra = {"action": "replica_superseded", "replica": entry.replica.id}
        _log.warning("replica superseded", extra=extra)
