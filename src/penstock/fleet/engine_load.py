"""Reads the engines' metrics regularly, and turns them into the claims a keeper sends gateways.

It decides nothing about replicas: a claim reports that an engine did not answer in time, and each
gateway checks the engine itself before it acts on that.
"""

import asyncio
import logging

from penstock.clock import Clock
from penstock.errors import ReplicaUnreachable
from penstock.fleet.engine_metrics import (
    EngineMetrics,
    PrefillRate,
    UncachedRate,
    read_metrics,
)
from penstock.fleet.health import EngineProbe
from penstock.fleet.known import Known, WatchedReplica
from penstock.fleet.settings import FleetSettings
from penstock.records.replica import LoadFigures, ReplicaId, ReplicaState
from penstock.records.signal import EngineClaim

_log = logging.getLogger(__name__)

# The largest values that a message may contain; see records/signal.py.
_COUNT_MAX = 2**40
_RATE_MAX = 1e9


class EngineLoads:
    """Reads ready engines in `run`; `claims` returns their latest readings."""

    def __init__(
        self, known: Known, probe: EngineProbe, settings: FleetSettings, clock: Clock
    ) -> None:
        self._known = known
        self._probe = probe
        self._interval = settings.load_seconds
        self._timeout = settings.load_timeout_seconds
        self._clock = clock
        self._readings: dict[ReplicaId, _Reading] = {}
        self.failures = 0

    async def run(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - the loop's top: a failed reading must not end the keeper
                self.failures += 1
                _log.exception("engine load loop failed", extra={"action": "load_loop_failed"})
            took = self._clock.monotonic() - began
            await asyncio.sleep(max(0.0, self._interval - took))

    async def look(self) -> None:
        """Send one GET to every ready engine, concurrently."""
        ready = self._ready()
        for gone in self._readings.keys() - ready.keys():
            del self._readings[gone]
        async with asyncio.TaskGroup() as group:
            for entry in ready.values():
                group.create_task(self._read(entry))

    def claims(self, now: float) -> list[EngineClaim]:
        """Return the claims of engines that are ready now; outdated readings are left out."""
        oldest = now - 2 * (self._interval + self._timeout)
        ready = self._ready()
        return [
            _claim(replica, reading, is_well=ready[replica].silent_since is None)
            for replica, reading in self._readings.items()
            if replica in ready and reading.at >= oldest
        ]

    def figures(self, now: float) -> dict[ReplicaId, LoadFigures]:
        """Return the latest readings of engines that are ready now, for the roster."""
        figures = {}
        for claim in self.claims(now):
            reading = self._readings[ReplicaId(claim.replica)]
            figures[ReplicaId(claim.replica)] = LoadFigures(
                running=claim.running,
                waiting=claim.waiting,
                kv_use=claim.kv_use,
                kv_tokens=claim.kv_tokens,
                prefill_rate=claim.prefill_rate,
                uncached_rate=reading.given.tokens_per_second,
                idle_seconds=max(0.0, now - reading.busy_at),
            )
        return figures

    def _ready(self) -> dict[ReplicaId, WatchedReplica]:
        return {
            replica: entry
            for replica, entry in self._known.replicas.items()
            if entry.replica.state is ReplicaState.READY and not entry.replica.leader
        }

    async def _read(self, entry: WatchedReplica) -> None:
        page: bytes | None = None
        # An engine that does not say what it does is taken to be busy.
        is_idle = False
        try:
            page = await self._probe.metrics(entry.replica, self._timeout)
            has_answered = True
        except ReplicaUnreachable:
            has_answered = False
        now = self._clock.monotonic()
        reading = self._readings.setdefault(entry.replica.id, _Reading(now))
        reading.at, reading.has_answered = now, has_answered
        if page is not None:
            before, reading.metrics = reading.metrics, read_metrics(page)
            # Short requests come and go between two readings, but their tokens are counted.
            is_asked = reading.metrics.uncached_tokens != before.uncached_tokens
            is_idle = reading.metrics.inside == 0 and not is_asked
            reading.rate.note(reading.metrics, now)
            reading.given.note(reading.metrics, now)
        if not is_idle:
            reading.busy_at = now


class _Reading:
    """One engine's latest reading; without metrics it still has whether the engine answers."""

    __slots__ = ("at", "busy_at", "given", "has_answered", "metrics", "rate")

    def __init__(self, now: float) -> None:
        self.at = 0.0
        self.busy_at = now
        self.has_answered = False
        self.metrics = EngineMetrics()
        self.rate = PrefillRate()
        self.given = UncachedRate()


def _claim(replica: ReplicaId, reading: _Reading, *, is_well: bool) -> EngineClaim:
    metrics = reading.metrics
    return EngineClaim(
        replica,
        is_healthy=is_well and reading.has_answered,
        running=min(metrics.running or 0, _COUNT_MAX),
        waiting=min(metrics.waiting or 0, _COUNT_MAX),
        kv_use=metrics.kv_use,
        kv_tokens=min(metrics.kv_tokens, _COUNT_MAX),
        block_tokens=min(metrics.block_tokens, _COUNT_MAX),
        prefill_rate=min(reading.rate.tokens_per_second, _RATE_MAX),
    )
