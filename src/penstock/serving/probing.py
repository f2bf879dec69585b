"""Probes the health of replicas, beside the request path: ejected ones, and suspects.

A suspect is a replica that sends nothing to the requests it has, or that its keeper calls sick. The
worker's own probe decides: neither a long prompt nor a wrong keeper removes a healthy replica. At
most one probe at a time per replica and worker, and one for each `routing.probe_seconds`.
"""

import asyncio
import logging
import math

from penstock.clock import Clock
from penstock.engine.replica import ReplicaClient
from penstock.records.replica import ReplicaId
from penstock.routing import Router
from penstock.serving.ejecting import eject
from penstock.serving.fleet_clients import FleetClients

_LOOK_SECONDS = 0.1

logger = logging.getLogger(__name__)


class Prober:
    """A loop that changes the router's ejections, and gives it the loads that engines report."""

    def __init__(self, router: Router, clients: FleetClients, clock: Clock) -> None:
        self._router = router
        self._clients = clients
        self._clock = clock
        # Suspects, and the time before which they are not probed again.
        self._resting: dict[ReplicaId, float] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                self._look(group)

    async def probe_due(self) -> None:
        """Start the probes that are due, once, and wait for their results."""
        async with asyncio.TaskGroup() as group:
            self._look(group)

    def _look(self, group: asyncio.TaskGroup) -> None:
        now = self._clock.monotonic()
        for replica, load in self._clients.loads(now):
            self._router.knowledge.hear_answer(replica, load, now)
        if self._router.ejections:
            for replica in self._router.ejections.due(now):
                group.create_task(self._probe_ejected(replica))
        for replica in self._suspects(now):
            client = self._client(replica)
            if client is not None:
                self._resting[replica] = math.inf
                group.create_task(self._probe_suspect(replica, client))

    def _suspects(self, now: float) -> list[ReplicaId]:
        """Return the suspects that may be probed now."""
        accused = self._router.gossip.suspects
        suspects = {*accused, *self._clients.silent(now)}
        accused.clear()
        for rested in [replica for replica, until in self._resting.items() if until <= now]:
            del self._resting[rested]
        out = self._router.ejections
        return [each for each in suspects if each not in self._resting and each not in out]

    def _client(self, replica: ReplicaId) -> ReplicaClient | None:
        """Return a replica's client, even if none was used yet: the next request may go there."""
        known = self._router.knowledge.find(replica)
        return None if known is None else self._clients.to(known.replica)

    async def _probe_suspect(self, replica: ReplicaId, client: ReplicaClient) -> None:
        reads = client.reads
        try:
            is_well = await client.is_healthy()
        finally:
            self._resting[replica] = self._clock.monotonic() + self._router.ejections.interval
        # An engine that is too busy to answer a probe may still answer requests.
        if is_well or client.reads != reads:
            return
        reason = "It was silent, and its health did not answer."
        eject(self._router, client.replica, reason, self._clock.monotonic())

    async def _probe_ejected(self, replica: ReplicaId) -> None:
        client = self._clients.find(replica)
        if client is None:
            self._router.ejections.restore(replica)
            return
        if await client.is_healthy():
            self._router.ejections.restore(replica)
            logger.info("replica restored", extra={"action": "restored", "replica": replica})
