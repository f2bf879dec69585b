"""Hosts, keepers, control and Postgres in memory, with a clock of their own.

The decisions are the real ones: each keeper's `plan` and `assign`, control's `next_changes` with
`place` and `decide`. Everything that they look at and act on is simulated: engines start, serve,
drain and die; keepers and control stop and come back; hosts and Postgres are cut off.
"""

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from tests.simulation.fleet_rows import (
    Assignment,
    AssignmentPart,
    Deployment,
    Engine,
    Host,
    RosterRow,
    parts_at,
)

from penstock.fleet.cell.rollout import RolloutStage
from penstock.fleet.cell.step import CellChanges, next_changes
from penstock.fleet.cell.view import (
    AssignmentView,
    CellLimits,
    CellView,
    DeploymentView,
    HostView,
    PartView,
    ReplicaPhase,
)
from penstock.fleet.intent import (
    AssignedReplica,
    FleetObservation,
    Intent,
    IntentLimits,
    KeeperOrders,
    Observed,
    Phase,
)
from penstock.fleet.plan import (
    Action,
    DrainReplica,
    Forget,
    MarkReady,
    StartReplica,
    StopReplica,
    plan,
    reasons_to_wait,
)
from penstock.fleet.wants import wants_of_assigned
from penstock.records.deployment import DeploymentSpec, ReplicaRange
from penstock.records.model import ModelId, Recipe
from penstock.records.replica import ReplicaId, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = CellLimits(lost_seconds=22.0, silent_seconds=10.0, settle_seconds=5.0)
_KEEPER_LIMITS = IntentLimits(
    restart_first_seconds=1.0, restart_seconds_max=4.0, drain_seconds=5.0, drain_settle_seconds=1.0
)
_START_SECONDS = 3.0
_HEARD_SECONDS = 2.0


class FleetWorld:
    """The whole cell. `tick` moves the clock by a second."""

    def __init__(self, hosts: int, gpus: int, models: dict[str, tuple[int, int]]) -> None:
        """`models` have GPUs on each of a replica's hosts, and how many hosts these are."""
        self.now = 1000.0
        self.hosts = {f"gpu-{n + 1}": Host(f"gpu-{n + 1}", gpus) for n in range(hosts)}
        self.deployments = {
            model: Deployment(model, DeploymentSpec(model), *size) for model, size in models.items()
        }
        self.assignments: dict[str, Assignment] = {}
        self.roster: dict[ReplicaId, RosterRow] = {}
        # First parts of which another part has ended.
        self.broken: set[ReplicaId] = set()
        self.has_postgres = True
        self.has_control = True
        self._numbers = itertools.count(1)
        self._ids: Iterator[ReplicaId] = (ReplicaId(f"r{n:07}") for n in itertools.count())

    # What operators do

    def scale(self, name: str, count: int) -> None:
        deployment = self.deployments[name]
        spec = msgspec.structs.replace(deployment.spec, replicas=ReplicaRange(count, count))
        deployment.spec, deployment.target = spec, count

    def roll_out(self, name: str) -> None:
        deployment = self.deployments[name]
        deployment.launch += 1
        deployment.stage, deployment.stage_at = RolloutStage.ROLLING, self.now

    # Time

    def tick(self) -> None:
        self.now += 1.0
        if self.has_postgres:
            self._reap()
            if self.has_control:
                self._control()
        for host in self.hosts.values():
            if not host.is_frozen and host.has_keeper:
                self._keep(host)

    def _control(self) -> None:
        cell = self._view()
        changes = next_changes(cell, LIMITS)
        for each in changes.placements:
            first, *others = each.keepers
            parts = [
                AssignmentPart(self._new_id(), rank, keeper)
                for rank, keeper in enumerate(others, 1)
            ]
            id = self._new_id()
            self.assignments[id] = Assignment(
                id, each.deployment, each.launch, first, each.gpus, self.now, parts
            )
        self._write(changes)

    def _new_id(self) -> str:
        return f"a{next(self._numbers):07}"

    def _write(self, changes: CellChanges) -> None:
        for id, reason in changes.ends.items():
            row = self.assignments[id]
            if not row.ending:
                row.ending, row.ending_at = reason, self.now
        for id in changes.dropped:
            del self.assignments[id]
        for name, change in changes.stages.items():
            deployment = self.deployments[name]
            if change.stage is not deployment.stage:
                deployment.stage, deployment.stage_at = change.stage, self.now
            deployment.stable = change.stable
            deployment.reason, deployment.waits = change.reason, change.waits

    def _view(self) -> CellView:
        phases = self._phases()
        return CellView(
            deployments=tuple(self._deployment(each) for each in self.deployments.values()),
            hosts=tuple(self._host(each) for each in self.hosts.values()),
            assignments=tuple(
                AssignmentView(
                    id=each.id,
                    deployment=each.deployment,
                    launch=each.launch,
                    keeper=each.keeper,
                    gpus=each.gpus,
                    ending=each.ending,
                    phase=phases.get(each.id, ReplicaPhase.NONE),
                    age_seconds=self.now - each.made_at,
                    ending_seconds=self.now - each.ending_at if each.ending else 0.0,
                    others=tuple(
                        PartView(part.keeper, each.gpus, phases.get(part.id, ReplicaPhase.NONE))
                        for part in each.others
                    ),
                )
                for each in self.assignments.values()
            ),
        )

    def _phases(self) -> dict[str, ReplicaPhase]:
        found: dict[str, ReplicaPhase] = {}
        for row in self.roster.values():
            if found.get(row.assignment) is not ReplicaPhase.READY:
                found[row.assignment] = ReplicaPhase(row.state.value)
        return found

    def _deployment(self, each: Deployment) -> DeploymentView:
        return DeploymentView(
            name=each.name,
            revision=each.launch,
            launch=each.launch,
            stable=each.stable,
            target=each.target,
            stage=each.stage,
            stage_seconds=self.now - each.stage_at,
            reason=each.reason,
            waits=each.waits,
            is_paused=False,
            is_removed=False,
            spec=each.spec,
            model=each.name,
            gpus=dict.fromkeys(range(1, each.launch + 1), each.gpus),
            start_seconds_max=60.0,
            nodes=dict.fromkeys(range(1, each.launch + 1), each.nodes),
        )

    def _host(self, host: Host) -> HostView:
        own = [row for row in self.roster.values() if row.keeper == host.name]
        return HostView(
            keeper=host.name,
            name=host.name,
            labels={},
            gpus=host.gpus,
            held=frozenset(gpu for row in own for gpu in row.gpus),
            waiting=frozenset(host.waiting),
            is_cordoned=host.is_cordoned,
            is_draining=host.is_draining,
            silent_seconds=self.now - host.reported_at,
        )

    def _reap(self) -> None:
        """Give up replicas whose keeper was not heard of: their rows are gone for good."""
        silent = [
            row.id for row in self.roster.values() if self.now - row.beat_at >= LIMITS.lost_seconds
        ]
        for id in silent:
            self._give_up(id)

    def _give_up(self, id: ReplicaId) -> None:
        row = self.roster.pop(id)
        if row.leader:
            self.broken.add(row.leader)

    # One keeper

    def _keep(self, host: Host) -> None:
        if self.has_postgres:
            self._obey(host)
            self._publish(host)
        if host.orders.assigned is None:
            return
        wants = wants_of_assigned(host.orders.assigned)
        intent = Intent(wants=wants, limits=_KEEPER_LIMITS, orders=host.orders)
        seen = FleetObservation(
            replicas=tuple(self._observed(engine) for engine in host.engines.values()),
            failures=dict(host.failures),
            gpus=host.gpus,
        )
        actions = plan(intent, seen, self.now, self._ids)
        host.waiting = reasons_to_wait(intent, seen, actions)
        for action in actions:
            self._act(host, action)

    def _obey(self, host: Host) -> None:
        """Read what the keeper is asked to do."""
        host.asked = {id: order for id, order in host.asked.items() if id in host.engines}
        assigned = [
            AssignedReplica(
                each.id,
                ModelId(each.deployment),
                Recipe(("x",), gpus=each.gpus, start_seconds_max=60),
            )
            for each in self.assignments.values()
            if each.keeper == host.name and not each.ending
        ]
        assigned += parts_at(host, self.assignments.values(), self.roster.values(), self.broken)
        host.orders = KeeperOrders(
            host.is_cordoned,
            host.is_draining,
            frozenset(id for id, order in host.asked.items() if order == "drain"),
            frozenset(id for id, order in host.asked.items() if order == "restart"),
            tuple(assigned),
            frozenset(self.broken & host.engines.keys()),
        )

    def _publish(self, host: Host) -> None:
        """Write the keeper's rows and its heartbeat."""
        assigned = {each.id for each in host.orders.assigned or ()}
        for engine in host.engines.values():
            row = self.roster.get(engine.id)
            is_listed = row is not None
            if engine.written_at is not None and not is_listed:
                engine.is_superseded = True
            is_unwanted = engine.assignment not in assigned
            is_listed_later = engine.state is not ReplicaState.DRAINING
            is_ghost = engine.written_at is None and is_unwanted and is_listed_later
            if engine.is_superseded or is_ghost:
                continue
            if row is None or row.state is not engine.state:
                engine.written_at = self.now
            self.roster[engine.id] = RosterRow(
                engine.id,
                engine.assignment,
                host.name,
                engine.model,
                engine.state,
                engine.gpus,
                self.now,
                engine.leader,
            )
        for row in [row for row in self.roster.values() if row.keeper == host.name]:
            if row.id not in host.engines:
                self._give_up(row.id)
        host.reported_at = self.now

    def _observed(self, engine: Engine) -> Observed:
        is_up = self.now - engine.started_at >= _START_SECONDS and self._is_joined(engine)
        return Observed(
            id=engine.id,
            want=engine.want,
            provider="process",
            generation=1,
            state=engine.state,
            phase=Phase.ALIVE if engine.is_alive else Phase.ENDED,
            since=engine.since,
            is_healthy=engine.is_alive and is_up,
            ready_since=engine.ready_since,
            running=0,
            written_at=engine.written_at,
            is_superseded=engine.is_superseded,
            is_failed=engine.is_failed,
            gpus=engine.gpus,
            leader=engine.leader,
            detail=engine.detail,
        )

    def _is_joined(self, engine: Engine) -> bool:
        """Whether all parts of a replica have met; the first one does not notice when one ends."""
        nodes = 1 if engine.leader else self.deployments[engine.model].nodes
        others = sum(
            other.leader == engine.id and other.is_alive
            for host in self.hosts.values()
            for other in host.engines.values()
        )
        engine.is_joined = engine.is_joined or others >= nodes - 1
        return engine.is_joined

    def _act(self, host: Host, action: Action) -> None:
        match action:
            case StartReplica():
                host.engines[action.replica] = Engine(
                    action.replica,
                    action.want.name,
                    action.want.assignment,
                    action.want.model,
                    action.gpus,
                    self.now,
                    since=self.now,
                    leader=action.want.part.leader,
                )
            case MarkReady():
                engine = host.engines[action.replica]
                engine.state, engine.since = ReplicaState.READY, self.now
                engine.ready_since = self.now
            case DrainReplica():
                engine = host.engines[action.replica]
                engine.state, engine.since = ReplicaState.DRAINING, self.now
                engine.detail, engine.is_failed = action.reason, action.is_failure
                engine.written_at = None if engine.is_superseded else engine.written_at
            case StopReplica():
                host.engines[action.replica].is_alive = False
            case Forget():
                engine = host.engines.pop(action.replica)
                if action.failures is not None:
                    host.failures[engine.want] = action.failures

    # What must hold

    def doubles(self) -> list[str]:
        """GPUs that two engines have."""
        return [
            f"{host.name}/{gpu}"
            for host in self.hosts.values()
            for gpu, count in host.held().items()
            if count > 1
        ]

    def listed(self) -> Counter[str]:
        """Replicas that start or serve on hosts that are heard of, by deployment.

        On a host that is cut off, what was asked of its keeper cannot happen yet.
        """
        live = (ReplicaState.STARTING, ReplicaState.READY)
        return Counter(
            row.model
            for row in self.roster.values()
            if not row.leader
            and row.state in live
            and self.now - self.hosts[row.keeper].reported_at <= _HEARD_SECONDS
        )

    def wrong(self) -> list[str]:
        """Deployments that are not as wanted, in words."""
        ready = Counter(
            row.model
            for row in self.roster.values()
            if row.state is ReplicaState.READY and not row.leader
        )
        placed = Counter(each.deployment for each in self.assignments.values() if not each.ending)
        return [
            f"{each.name}: {ready[each.name]} ready, {placed[each.name]} placed, {each.target}"
            f" wanted, {each.stage} {each.waits}"
            for each in self.deployments.values()
            if (ready[each.name], placed[each.name]) != (each.target, each.target)
            or each.stage is not RolloutStage.DONE
        ]
