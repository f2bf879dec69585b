"""Screen 5: replicas, hosts, and the cell's own processes, as they are now."""

from collections import Counter
from collections.abc import Mapping, Sequence

from penstock.console.deployment_operations import LIST_DEPLOYMENTS
from penstock.console.fleet_operations import (
    LIST_HOSTS,
    LIST_REPLICAS,
    LIST_WORKERS,
    ReplicasAsked,
    ReplicaUse,
)
from penstock.console.operation import Nothing
from penstock.console.screens.page import Context, PageRequest
from penstock.fleet.replica_rows import ReplicaRow
from penstock.fleet.workers import SILENT_SECONDS, count_gateways, left_out
from penstock.metering.reports.slow_replicas import REQUESTS_MIN, median_if_slow


async def read_fleet(page: PageRequest) -> Context:
    """Read the fleet."""
    replicas = await page.read(LIST_REPLICAS, ReplicasAsked())
    hosts = await page.read(LIST_HOSTS, Nothing())
    workers = await page.read(LIST_WORKERS, Nothing())
    deployments = await page.read(LIST_DEPLOYMENTS, Nothing())
    models = []
    for model in sorted({row.model for row in replicas.replicas}):
        rows = [row for row in replicas.replicas if row.model == model]
        models.append(
            {
                "model": model,
                "states": Counter(str(row.state) for row in rows),
                "running": sum(row.load.running for row in rows),
                "waiting": sum(row.load.waiting for row in rows),
            }
        )
    slow = times_slower(replicas.replicas, replicas.use)
    dead = left_out(workers.workers)
    return {
        "models": models,
        # Those that gateways leave out and the slowest first, then those that are not ready: a row
        # where an incident may begin.
        "replicas": sorted(
            replicas.replicas,
            key=lambda row: (row.id not in dead, -slow.get(row.id, 0.0), row.state == "ready"),
        ),
        "slow": slow,
        "left_out": dead,
        "gateways": count_gateways(workers.workers),
        "deployments": deployments.deployments,
        "use": replicas.use,
        "hosts": hosts.hosts,
        "workers": workers.workers,
        "silent_seconds": SILENT_SECONDS,
        "now": page.rooms.clock.now(),
    }


def times_slower(rows: Sequence[ReplicaRow], use: Mapping[str, ReplicaUse]) -> dict[str, float]:
    """Return by how much each slow replica is slower than its model's others at their median."""
    found: dict[str, float] = {}
    for model in {row.model for row in rows}:
        known: dict[str, float] = {}
        for row in rows:
            used = use.get(row.id)
            if row.model != model or used is None or used.requests < REQUESTS_MIN:
                continue
            if used.first_token_p50_ms is not None:
                known[row.id] = used.first_token_p50_ms
        for id, time in known.items():
            median = median_if_slow(id, known)
            if median is not None:
                found[id] = time / median
    return found
