"""Serves a keeper's `/metrics`: the figures of its engines, its flex work and its GPUs."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from penstock.app.station import Station
from penstock.clock import Clock
from penstock.fleet.gpu_use import Gpus
from penstock.fleet.reconcile import Keeper
from penstock.fleet.settings import FleetSettings
from penstock.records.replica import ReplicaId
from penstock.records.signal import EngineClaim
from penstock.telemetry.keeper_metrics import EngineRow, KeeperSnapshot, render_keeper
from penstock.telemetry.page_server import PageServer

_LOOK_SECONDS = 1.0

logger = logging.getLogger(__name__)


async def serve_metrics(
    settings: FleetSettings,
    kept: Keeper,
    station: Station | None,
    clock: Clock,
    log_lines_dropped: Callable[[], int],
) -> None:
    """Serve until cancelled; only warn if the port is taken, so that the keeper goes on."""
    if not settings.metrics_port:
        return
    snapshot = KeeperSnapshot()
    try:
        server = PageServer(
            settings.metrics_host, settings.metrics_port, lambda: render_keeper(snapshot)
        )
    except OSError as failure:
        extra = {"action": "keeper_metrics_missing", "reason": str(failure)}
        logger.warning("keeper metrics cannot be served", extra=extra)
        return
    server.start()
    try:
        gpus = await asyncio.to_thread(Gpus)
        while True:
            # Made here; the server's thread only reads it.
            taken = take_snapshot(kept.claims(clock.monotonic()), station)
            gpu_use = await asyncio.to_thread(gpus.read)
            snapshot = msgspec.structs.replace(
                taken, gpus=gpu_use, log_lines_dropped=log_lines_dropped()
            )
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        await asyncio.to_thread(server.stop)


def take_snapshot(claims: list[EngineClaim], station: Station | None) -> KeeperSnapshot:
    """Return all figures but those of the GPUs."""
    rows = tuple(_row(claim, station) for claim in claims)
    if station is None:
        return KeeperSnapshot(rows)
    counts = station.counts
    jobs = {
        "started": counts.started,
        "started_reserved": counts.started_reserved,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "retried": counts.retried,
        "handed_back": counts.handed_back,
        "cancelled": counts.cancelled,
        "lost": counts.lost,
    }
    tokens = {
        "prompt": counts.prompt_tokens,
        "cached": counts.cached_tokens,
        "output": counts.output_tokens,
    }
    dropped = station.traces_dropped
    return KeeperSnapshot(rows, jobs, counts.failures, tokens, traces_dropped=dropped)


def _row(claim: EngineClaim, station: Station | None) -> EngineRow:
    replica = ReplicaId(claim.replica)
    lane = station.puller.lanes.get(replica) if station and station.puller else None
    known = station.router.knowledge.find(replica) if station else None
    return EngineRow(
        model=lane.replica.model if lane else "",
        replica=claim.replica,
        running=claim.running,
        waiting=claim.waiting,
        kv_use=claim.kv_use,
        prefill_rate=claim.prefill_rate,
        is_healthy=claim.is_healthy,
        live=known.claims.in_flight if known else 0,
        flex=len(lane.jobs) if lane else 0,
        allowed=lane.headroom.allowed if lane else 0.0,
    )
