"""Brings ejected replicas back: probes those that are due, restores those that answer.

At most one probe a second per replica and worker, and only of replicas that failed.
"""

import asyncio
import logging

from penstock.clock import Clock
from penstock.records.replica import ReplicaId
from penstock.routing import Router
from penstock.serving.fleet_clients import FleetClients

_LOOK_SECONDS = 0.2

logger = logging.getLogger(__name__)


class Prober:
    """A loop beside the path; it changes nothing but the router's ejections."""

    def __init__(self, router: Router, clients: FleetClients, clock: Clock) -> None:
        self._router = router
        self._clients = clients
        self._clock = clock

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._router.ejections:
                await self.probe_due()

    async def probe_due(self) -> None:
        due = self._router.ejections.due(self._clock.monotonic())
        async with asyncio.TaskGroup() as group:
            for replica in due:
                group.create_task(self._probe(replica))

    async def _probe(self, replica: ReplicaId) -> None:
        client = self._clients.find(replica)
        if client is None:
            self._router.ejections.restore(replica)
            return
        if await client.is_healthy():
            self._router.ejections.restore(replica)
            logger.info("replica restored", extra={"action": "restored", "replica": replica})
