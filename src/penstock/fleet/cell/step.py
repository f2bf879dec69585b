"""Decides what control changes next, from all that it knows of the cell. Pure.

Guarantees: a replica is placed once and on a host with room; an assignment is dropped only when
nothing runs for it, or its host is lost; what runs is never moved.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from penstock.fleet.cell.autoscale import DeploymentLoad, ScaleTarget, scale_target
from penstock.fleet.cell.place import OpenHost, Placement, WantedPlaces, place
from penstock.fleet.cell.rollout import (
    Decision,
    DeploymentState,
    PlacedReplica,
    RolloutStage,
    decide,
)
from penstock.fleet.cell.view import (
    AssignmentView,
    CellLimits,
    CellView,
    DeploymentView,
    HostView,
    ReplicaPhase,
)


class StageChange(msgspec.Struct, frozen=True):
    """How a deployment stands from now on."""

    stage: RolloutStage
    reason: str
    # The launch that served well last; None before any has.
    stable: int | None
    # Why replicas have no place; "" if all have one.
    waits: str


class CellChanges(msgspec.Struct, frozen=True):
    """What to write."""

    placements: tuple[Placement, ...] = ()
    # Deployments that are to have more or fewer replicas from now on.
    targets: dict[str, ScaleTarget] = {}
    # Assignments to end, with the reason.
    ends: dict[str, str] = {}
    # Assignments of which nothing runs any more.
    dropped: tuple[str, ...] = ()
    # Deployments that stand otherwise than before.
    stages: dict[str, StageChange] = {}
    # Deployments that were removed and have nothing left.
    removed: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not any(msgspec.structs.astuple(self))


def next_changes(cell: CellView, limits: CellLimits) -> CellChanges:
    """Return what brings the cell closer to what its deployments want."""
    hosts = {host.keeper: host for host in cell.hosts}
    dropped = [each.id for each in cell.assignments if _is_over(each, hosts, limits)]
    kept = [each for each in cell.assignments if each.id not in dropped]
    models = {each.name: each.model for each in cell.deployments}
    ends = {
        each.id: reason
        for each in kept
        if (reason := _must_leave(each, hosts, models.get(each.deployment), limits))
    }
    targets = {
        each.name: target
        for each in cell.deployments
        if (target := _scaled(each, cell.loads.get(each.name)))
    }
    deployments = [
        msgspec.structs.replace(each, target=targets[each.name].count)
        if each.name in targets
        else each
        for each in cell.deployments
    ]
    states = {each.name: _state(each, kept, ends, cell) for each in deployments}
    decisions = {name: decide(state) for name, state in states.items()}
    wanted = [
        _wanted(deployment, launch, count)
        for deployment in cell.deployments
        for launch, count in decisions[deployment.name].starts.items()
    ]
    placements, reasons = place(wanted, open_hosts(cell, kept, limits))
    for name in reasons:
        without_room = msgspec.structs.replace(states[name], has_no_room=True)
        decision = decisions[name]
        ends_for_room = decide(without_room).ends
        decisions[name] = msgspec.structs.replace(decision, ends=decision.ends | ends_for_room)
    for decision in decisions.values():
        ends |= decision.ends
    present = {each.deployment for each in kept}
    return CellChanges(
        placements=tuple(placements),
        targets=targets,
        ends=ends,
        dropped=tuple(dropped),
        stages={
            each.name: change
            for each in cell.deployments
            if (change := _change(each, decisions[each.name], reasons.get(each.name, "")))
        },
        removed=tuple(
            each.name for each in cell.deployments if each.is_removed and each.name not in present
        ),
    )


def _is_over(each: AssignmentView, hosts: dict[str, HostView], limits: CellLimits) -> bool:
    """Return whether nothing runs for an assignment, or nobody will ever hear of it again."""
    host = hosts.get(each.keeper)
    if host is None or _is_lost(host, limits):
        return True
    running = [part for part in each.parts if part.phase is not ReplicaPhase.NONE]
    if not each.ending or any(not _is_lost(hosts.get(part.keeper), limits) for part in running):
        return False
    # Its keeper may have read the assignment before it was to end, and be starting it now.
    has_been_heard = host.silent_seconds < each.ending_seconds
    return has_been_heard and each.ending_seconds >= limits.settle_seconds


def _is_lost(host: HostView | None, limits: CellLimits) -> bool:
    """Return whether a host was silent for so long that all that ran there has ended.

    A pool is never lost, because its pods do not end with their keeper.
    """
    return host is None or (not host.pool and host.silent_seconds >= limits.lost_seconds)


def _must_leave(
    each: AssignmentView, hosts: dict[str, HostView], model: str | None, limits: CellLimits
) -> str:
    """Return why an assignment must leave its hosts; "" if it need not."""
    if each.ending:
        return ""
    for part in each.parts:
        host = hosts.get(part.keeper)
        if host is None or _is_lost(host, limits):
            return "one of its hosts is lost"
        if host.is_draining:
            return "its host is drained"
        if part.phase is ReplicaPhase.NONE and model in host.waiting and not host.pool:
            # Nothing runs there, so nothing is moved: the host has less room than it had.
            return "its host has no room for it"
    return ""


def _scaled(deployment: DeploymentView, load: DeploymentLoad | None) -> ScaleTarget | None:
    """Return how many replicas a deployment's load asks for; None if there is nothing to change."""
    if load is None or deployment.is_paused or deployment.is_removed:
        return None
    target = scale_target(deployment.target, deployment.spec, load)
    # Nothing shrinks while replicas of two launches stand beside each other.
    is_rolling = deployment.stage not in (RolloutStage.DONE, RolloutStage.HALTED)
    return None if target and is_rolling and target.count < deployment.target else target


def _state(
    deployment: DeploymentView,
    assignments: list[AssignmentView],
    ends: dict[str, str],
    cell: CellView,
) -> DeploymentState:
    replicas = [
        PlacedReplica(
            assignment=each.id,
            launch=each.launch,
            is_ready=each.phase is ReplicaPhase.READY,
            is_ending=bool(each.ending) or each.id in ends,
            age_seconds=each.age_seconds,
            is_draining=each.phase is ReplicaPhase.DRAINING,
            in_flight=each.in_flight,
        )
        for each in assignments
        if each.deployment == deployment.name
    ]
    return DeploymentState(
        target=0 if deployment.is_removed else deployment.target,
        launch=deployment.launch,
        stable=deployment.stable,
        stage=deployment.stage,
        stage_seconds=deployment.stage_seconds,
        is_paused=deployment.is_paused and not deployment.is_removed,
        rules=deployment.spec.rollout,
        start_seconds_max=deployment.start_seconds_max,
        replicas=replicas,
        comparison=cell.comparisons.get(deployment.name),
    )


def _wanted(deployment: DeploymentView, launch: int, count: int) -> WantedPlaces:
    spec = deployment.spec
    return WantedPlaces(
        deployment=deployment.name,
        launch=launch,
        count=count,
        gpus=deployment.gpus[launch],
        hosts=spec.hosts,
        is_spread=spec.spread == "hosts",
        nodes=deployment.nodes.get(launch, 1),
        pool=spec.pool,
    )


def open_hosts(
    cell: CellView, assignments: Sequence[AssignmentView], limits: CellLimits
) -> list[OpenHost]:
    """Return the hosts on which replicas may be placed, with the room that they have."""
    placed: dict[str, Counter[str]] = {}
    unstarted: Counter[str] = Counter()
    for each in assignments:
        for part in each.parts:
            placed.setdefault(part.keeper, Counter())[each.deployment] += 1
            if part.phase is ReplicaPhase.NONE:
                unstarted[part.keeper] += part.gpus
    return [
        OpenHost(
            keeper=host.keeper,
            name=host.name,
            labels=host.labels,
            free_gpus=max(0, _free(host, limits) - unstarted[host.keeper]),
            placed=dict(placed.get(host.keeper, {})),
            address=host.address,
            pool=host.pool,
        )
        for host in cell.hosts
        if not host.is_cordoned
        and not host.is_draining
        and host.silent_seconds < limits.silent_seconds
    ]


def _free(host: HostView, limits: CellLimits) -> int:
    """Return how many GPUs neither replicas hold nor other programs use."""
    return sum(
        gpu.id not in host.held and gpu.used_mb <= limits.gpu_foreign_mb for gpu in host.gpus
    )


def _change(before: DeploymentView, decision: Decision, waits: str) -> StageChange | None:
    """Return how a deployment stands after a decision; None if that is as before."""
    # A decision without a reason leaves the one that its stage began with.
    kept = before.reason if decision.stage is before.stage else ""
    stable = before.stable if decision.stable is None else decision.stable
    after = StageChange(decision.stage, decision.reason or kept, stable, waits)
    now = StageChange(before.stage, before.reason, before.stable, before.waits)
    return None if after == now else after
