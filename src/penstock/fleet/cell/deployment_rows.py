"""Reads deployments, hosts and assignments from Postgres, and writes what control decides."""

from collections import defaultdict
from typing import Final

import msgspec

from penstock.clock import new_id
from penstock.fleet.cell.autoscale import DeploymentLoad
from penstock.fleet.cell.place import Placement
from penstock.fleet.cell.rollout import Comparison, RolloutStage
from penstock.fleet.cell.step import CellChanges
from penstock.fleet.cell.view import (
    AssignmentView,
    CellView,
    DeploymentView,
    HostView,
    PartView,
    ReplicaPhase,
)
from penstock.records.deployment import DeploymentSpec
from penstock.records.host import Gpu
from penstock.store.pool import Row, Store, Transaction

_LOCK: Final = "update deployments_revision set revision = revision + 1"
_DEPLOYMENTS: Final = """
    select d.name, d.revision, d.launch, d.stable, d.target, d.stage,
        extract(epoch from now() - d.stage_since)::float8, d.reason, d.waits, d.is_paused,
        d.is_removed, r.spec::text, r.model,
        (select jsonb_object_agg(l.revision::text,
                                 jsonb_build_array(l.recipe -> 'gpus', l.recipe -> 'hosts'))::text
         from deployment_revisions l
         where l.deployment = d.name and l.revision = l.launch),
        (r.recipe ->> 'start_seconds_max')::float8,
        extract(epoch from now() - d.target_since)::float8,
        extract(epoch from now() - d.busy_at)::float8, d.start_seconds,
        (r.recipe ->> 'slots_live')::int
    from deployments d
    join deployment_revisions r on r.deployment = d.name and r.revision = d.revision
    order by d.name limit 1000
"""
_HOSTS: Final = """
    select h.keeper, h.name, h.labels::text, h.gpus::text, h.waiting::text, h.is_cordoned,
        h.is_draining, extract(epoch from now() - h.heartbeat_at)::float8,
        array(select unnest(r.gpus) from replicas r
              where r.keeper = h.keeper and r.state <> 'gone'),
        h.address, h.pool
    from hosts h where h.obeys = 'deployments' order by h.name, h.keeper limit 1000
"""
_ASSIGNMENTS: Final = """
    select a.id::text, a.deployment, a.launch, a.keeper, a.gpus, a.ending,
        coalesce((select r.state from replicas r
                  where r.assignment = a.id::text and r.state <> 'gone'
                  order by r.state = 'ready' desc, r.state = 'draining' limit 1), 'none'),
        extract(epoch from now() - greatest(a.made_at, a.fetched_at))::float8,
        coalesce(extract(epoch from now() - a.ending_at)::float8, 0),
        coalesce((select sum(coalesce((r.load ->> 'running')::int, 0)
                             + coalesce((r.load ->> 'waiting')::int, 0))::int
                  from replicas r where r.assignment = a.id::text and r.state = 'ready'), 0)
    from assignments a order by a.made_at, a.id limit 10000
"""
_PARTS: Final = """
    select p.assignment::text, p.keeper, p.gpus,
        coalesce((select r.state from replicas r
                  where r.assignment = p.id::text and r.state <> 'gone' limit 1), 'none')
    from assignment_parts p order by p.assignment, p.rank limit 10000
"""
_PLACE: Final = """
    insert into assignments (id, deployment, launch, keeper, host, gpus)
    values (%s::uuid, %s, %s, %s, %s, %s)
"""
_PLACE_PART: Final = """
    insert into assignment_parts (id, assignment, rank, keeper, host, gpus)
    values (%s::uuid, %s::uuid, %s, %s, %s, %s)
"""
_END: Final = """
    update assignments set ending = %s, ending_at = now() where id = %s::uuid and ending = ''
"""
_DROP: Final = "delete from assignments where id = any(%s::uuid[])"
_STAGE: Final = """
    update deployments set
        stage = %s, stage_since = case when stage = %s then stage_since else now() end,
        reason = %s, stable = %s, waits = %s
    where name = %s
"""
_SCALE: Final = """
    update deployments set target = %s, target_reason = %s, target_since = now() where name = %s
"""
_NOTE: Final = """
    update deployments set
        busy_at = case when %s then now() else busy_at end,
        start_seconds = coalesce(%s, start_seconds)
    where name = %s
"""
_REMOVE: Final = "delete from deployments where name = any(%s)"


async def lock_deployments(tx: Transaction) -> None:
    """Wait for other writers; call it first in a transaction."""
    await tx.execute(_LOCK)


async def read_cell(
    tx: Transaction,
    comparisons: dict[str, Comparison] | None = None,
    loads: dict[str, DeploymentLoad] | None = None,
) -> CellView:
    """Return what is known of the cell now."""
    parts: defaultdict[str, list[PartView]] = defaultdict(list)
    for assignment, keeper, gpus, phase in await tx.fetch(_PARTS):
        parts[assignment].append(PartView(keeper, gpus, ReplicaPhase(phase)))
    return CellView(
        deployments=tuple(_deployment(row) for row in await tx.fetch(_DEPLOYMENTS)),
        hosts=tuple(_host(row) for row in await tx.fetch(_HOSTS)),
        assignments=tuple(_assignment(row, parts[row[0]]) for row in await tx.fetch(_ASSIGNMENTS)),
        comparisons=comparisons or {},
        loads=loads or {},
    )


async def note_load(store: Store, deployment: str, load: DeploymentLoad) -> None:
    """Remember whether a deployment has work, and how long its last start took.

    One row in a transaction of its own: writers of several rows could wait for each other.
    """
    values = (not load.idle_seconds, load.last_start_seconds, deployment)
    async with store.statement() as statement:
        await statement.execute(_NOTE, values)


async def write_changes(tx: Transaction, changes: CellChanges) -> None:
    """Write what was decided."""
    for placement in changes.placements:
        await _place(tx, placement)
    for id, reason in changes.ends.items():
        await tx.execute(_END, (reason, id))
    if changes.dropped:
        await tx.execute(_DROP, (list(changes.dropped),))
    for name, change in changes.stages.items():
        stage = change.stage.value
        row = (stage, stage, change.reason, change.stable, change.waits, name)
        await tx.execute(_STAGE, row)
    for name, target in changes.targets.items():
        await tx.execute(_SCALE, (target.count, target.reason, name))
    if changes.removed:
        await tx.execute(_REMOVE, (list(changes.removed),))


async def _place(tx: Transaction, placement: Placement) -> None:
    id, gpus = new_id(), placement.gpus
    first, *others = zip(placement.keepers, placement.hosts, strict=True)
    await tx.execute(_PLACE, (id, placement.deployment, placement.launch, *first, gpus))
    for rank, other in enumerate(others, 1):
        await tx.execute(_PLACE_PART, (new_id(), id, rank, *other, gpus))


def _deployment(row: Row) -> DeploymentView:
    launches = msgspec.json.decode(row[13], type=dict[int, tuple[int, int]])
    return DeploymentView(
        name=row[0],
        revision=row[1],
        launch=row[2],
        stable=row[3],
        target=row[4],
        stage=RolloutStage(row[5]),
        stage_seconds=row[6],
        reason=row[7],
        waits=row[8],
        is_paused=row[9],
        is_removed=row[10],
        spec=msgspec.json.decode(row[11], type=DeploymentSpec),
        model=row[12],
        gpus={launch: gpus for launch, (gpus, _) in launches.items()},
        start_seconds_max=row[14],
        target_seconds=row[15],
        idle_seconds=row[16],
        start_seconds=row[17],
        slots=row[18],
        nodes={launch: nodes for launch, (_, nodes) in launches.items()},
    )


def _host(row: Row) -> HostView:
    keeper, name, labels, gpus, waiting, is_cordoned, is_draining, silent, held, *rest = row
    address, pool = rest
    return HostView(
        keeper=keeper,
        name=name,
        labels=msgspec.json.decode(labels),
        gpus=msgspec.json.decode(gpus, type=tuple[Gpu, ...]),
        held=frozenset(held),
        waiting=frozenset(msgspec.json.decode(waiting, type=dict[str, str])),
        is_cordoned=is_cordoned,
        is_draining=is_draining,
        silent_seconds=silent,
        address=address,
        pool=pool,
    )


def _assignment(row: Row, others: list[PartView]) -> AssignmentView:
    return AssignmentView(
        id=row[0],
        deployment=row[1],
        launch=row[2],
        keeper=row[3],
        gpus=row[4],
        ending=row[5],
        phase=ReplicaPhase(row[6]),
        age_seconds=row[7],
        ending_seconds=row[8],
        in_flight=row[9],
        others=tuple(others),
    )
