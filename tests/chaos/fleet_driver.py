"""Does the steps of a fleet's chaos with real processes, and looks at what deployments become."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec
from tests.chaos.fleet_cell import HOSTS, MODELS, FleetCell
from tests.chaos.fleet_steps import KILLS, Step, StepKind

from penstock.catalogue import load_catalogue
from penstock.catalogue.settings import CatalogueSettings
from penstock.errors import Conflict, Error, StoreUnavailable
from penstock.fleet.cell.deployments import Author, Deployments, resolve
from penstock.fleet.orders import OrderTable, ReplicaOrder
from penstock.fleet.replica_rows import ReplicaRows
from penstock.records.deployment import DeploymentSpec, ReplicaRange, RolloutRules
from penstock.records.replica import ReplicaState
from penstock.store import Store

# The most replicas of a deployment: with a surge, all fit on half of the hosts.
_MOST = {1: 6, 2: 4, 4: 2}
_AUTHOR = Author("chaos")
# How long a change may take to reach keepers and back.
_LATE_SECONDS = 20.0
_BEGIN_SECONDS = 60.0
_KEEPER_AWAY_SECONDS = 2.0


class FleetDriver:
    """Remembers what is wanted, and compares it with what there is."""

    def __init__(self, cell: FleetCell, store: Store) -> None:
        self._cell = cell
        self._store = store
        self._deployments = Deployments(store)
        self._orders = OrderTable(store)
        self._replicas = ReplicaRows(store)
        folder = str(cell.settings["catalogue.folder"])
        self._catalogue = load_catalogue(CatalogueSettings(folder=folder))
        self._names = [model.rpartition("/")[2] for model in MODELS]
        self._specs: dict[str, DeploymentSpec] = {}
        self._versions = itertools.count(1)
        self._beside: set[asyncio.Task[None]] = set()
        # What was wanted lately, to judge what keepers do with some delay.
        self._lately: deque[tuple[float, dict[str, int]]] = deque()
        self.kills = 0
        self.problems: list[str] = []

    async def begin(self) -> None:
        """Wait for all hosts, and deploy every model."""
        deadline = time.monotonic() + _BEGIN_SECONDS
        while True:
            async with self._store.statement() as statement:
                rows = await statement.fetch("select 1 from hosts where obeys = 'deployments'")
            if len(rows) == HOSTS:
                break
            assert time.monotonic() < deadline, "the hosts did not come up"
            await asyncio.sleep(0.2)
        for name, model in zip(self._names, MODELS, strict=True):
            await self._apply(name, DeploymentSpec(model, ReplicaRange(2, 2)))

    async def do(self, step: Step) -> None:
        """One step. What Postgres refuses because it is away is left out."""
        if step.kind in KILLS:
            self.kills += 1
        with suppress(StoreUnavailable):
            try:
                await self._do(step)
            except StoreUnavailable:
                raise
            except Error as refused:
                if not isinstance(refused, Conflict):
                    self.problems.append(f"{step.kind}: {refused}")

    async def _do(self, step: Step) -> None:
        host = self._cell.hosts[step.host].name
        match step.kind:
            case StepKind.DEPLOY:
                await self._roll_out(self._names[step.deployment])
            case StepKind.SCALE:
                await self._scale(self._names[step.deployment], step.number)
            case StepKind.DRAIN_REPLICA | StepKind.RESTART_REPLICA:
                await self._ask(step)
            case StepKind.CORDON:
                await self._orders.cordon(host, is_cordoned=True)
            case StepKind.UNCORDON:
                await self._orders.cordon(host, is_cordoned=False)
            case StepKind.DRAIN_HOST:
                await self._orders.cordon(host, is_cordoned=True, is_draining=True)
            case _:
                await self._harm(step)

    async def _harm(self, step: Step) -> None:
        """Kill, cut off or take away."""
        cell, host = self._cell, self._cell.hosts[step.host]
        match step.kind:
            case StepKind.KILL_ENGINE:
                if not host.kill_engine(step.number):
                    any(each.kill_engine(step.number) for each in cell.hosts)
            case StepKind.KILL_CONTROL:
                await asyncio.to_thread(cell.control.kill)
                self._later(1.0, cell.control.start)
            case StepKind.POSTGRES_AWAY:
                await asyncio.to_thread(cell.postgres.stop)
                await asyncio.sleep(3.0)
                await asyncio.to_thread(cell.postgres.start)
            case StepKind.KILL_KEEPER if not host.is_frozen:
                await asyncio.to_thread(host.keeper.kill)
                self._later(_KEEPER_AWAY_SECONDS, host.keeper.start)
            case StepKind.CUT_OFF if not host.is_frozen:
                host.freeze(True)
                self._later(step.seconds, lambda: host.freeze(False))
            case _:
                pass  # the host is cut off already

    async def rest(self, seconds: float) -> list[str]:
        """Let all hosts work again, and wait; what is not as wanted by then, in words."""
        if self._beside:
            await asyncio.wait(self._beside)
        for host in self._cell.hosts:
            with suppress(Error):
                await self._orders.cordon(host.name, is_cordoned=False)
        deadline = time.monotonic() + seconds
        while True:
            try:
                wrong = await self._wrong()
            except StoreUnavailable:
                wrong = ["Postgres is away"]
            if not wrong or time.monotonic() >= deadline:
                return wrong
            await asyncio.sleep(0.5)

    async def watch(self) -> None:
        """Look now and then whether more replicas are listed than were wanted lately."""
        over: dict[str, float] = {}
        while True:
            await asyncio.sleep(0.5)
            try:
                listed = await self._listed()
            except StoreUnavailable:
                continue
            now = time.monotonic()
            allowed = self._allowed(now)
            for name, count in listed.items():
                if count <= allowed.get(name, 0):
                    over.pop(name, None)
                elif now - over.setdefault(name, now) > _LATE_SECONDS:
                    self.problems.append(f"{name}: {count} replicas, {allowed[name]} wanted")
                    over.pop(name)

    def _allowed(self, now: float) -> dict[str, int]:
        wanted = {name: spec.replicas.max for name, spec in self._specs.items()}
        self._lately.append((now, wanted))
        while self._lately[0][0] < now - _LATE_SECONDS:
            self._lately.popleft()
        surge = RolloutRules().surge
        return {name: max(each.get(name, 0) for _, each in self._lately) + surge for name in wanted}

    async def _listed(self) -> dict[str, int]:
        by_model = {model: name for name, model in zip(self._names, MODELS, strict=True)}
        counts = dict.fromkeys(self._names, 0)
        for row in await self._replicas.read():
            if row.state in (ReplicaState.STARTING, ReplicaState.READY):
                counts[by_model[row.model]] += 1
        return counts

    async def _wrong(self) -> list[str]:
        wrong = []
        for shown in await self._deployments.read():
            count = self._specs[shown.name].replicas.max
            if (shown.ready, shown.placed, shown.stage) != (count, count, "done"):
                wrong.append(
                    f"{shown.name}: {shown.ready} ready, {shown.placed} placed, {count} wanted,"
                    f" {shown.stage} {shown.reason} {shown.waits}"
                )
        return wrong

    async def _roll_out(self, name: str) -> None:
        spec = self._specs[name]
        changed = {"VERSION": str(next(self._versions))}
        await self._apply(name, msgspec.structs.replace(spec, environment=changed))

    async def _scale(self, name: str, number: int) -> None:
        spec = self._specs[name]
        most = _MOST[MODELS[spec.model]]
        count = number % (most + 1)
        await self._deployments.scale(name, ReplicaRange(count, count), _AUTHOR)
        self._specs[name] = msgspec.structs.replace(spec, replicas=ReplicaRange(count, count))

    async def _apply(self, name: str, spec: DeploymentSpec) -> None:
        present = {each.name: each.revision for each in await self._deployments.read()}
        wanted = [resolve(name, spec, self._catalogue)]
        await self._deployments.apply(wanted, present, _AUTHOR)
        self._specs[name] = spec

    async def _ask(self, step: Step) -> None:
        rows = await self._replicas.read()
        if rows:
            is_drain = step.kind is StepKind.DRAIN_REPLICA
            order = ReplicaOrder.DRAIN if is_drain else ReplicaOrder.RESTART
            await self._orders.ask(rows[step.number % len(rows)].id, order)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        async def run() -> None:
            await asyncio.sleep(seconds)
            act()

        task = asyncio.get_running_loop().create_task(run())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
