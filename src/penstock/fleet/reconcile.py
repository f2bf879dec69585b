"""The keeper: runs observe → plan → act every heartbeat for the replicas of one host.

Guarantees: replicas outlive the keeper; a keeper restarted on the same state folder adopts them; a
Postgres outage only makes the roster older. `stop_replicas` is for `penstock up` on one machine,
where users do not expect engines to keep running.
"""

import asyncio
import contextlib
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence

from penstock.catalogue import Catalogue
from penstock.clock import Clock, new_id
from penstock.errors import Error, StoreUnavailable, Superseded
from penstock.fleet.act import Actor
from penstock.fleet.engine_keys import EngineKeys
from penstock.fleet.engine_load import EngineLoads
from penstock.fleet.gpus import HostGpus
from penstock.fleet.health import EngineProbe
from penstock.fleet.host_report import HostReporter
from penstock.fleet.hosts import HostReports
from penstock.fleet.intent import Intent, Want
from penstock.fleet.known import Known
from penstock.fleet.observe import Observer
from penstock.fleet.orders import OrderTable
from penstock.fleet.plan import DrainReplica, StopReplica, plan, reasons_to_wait
from penstock.fleet.progress import OnProgress, Progress
from penstock.fleet.publish import Publisher
from penstock.fleet.replica_logs import ReplicaLogs
from penstock.fleet.roster import RosterTable
from penstock.fleet.settings import FleetSettings
from penstock.fleet.sources import open_sources
from penstock.fleet.waiting import wait_for_event
from penstock.fleet.wants import (
    check_recipes,
    limits_at_stop,
    limits_of,
    wants_of,
    wants_of_assigned,
)
from penstock.fleet.weights.awaited_weights import awaited_weights, fetched_now
from penstock.fleet.weights.fetch_loop import WeightFetches
from penstock.records.model import ModelId, Weights
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.signal import EngineClaim
from penstock.store.pool import Store
from penstock.store.sealing import Sealing

# Sends the engine claims of the keeper with this id to gateways until it is cancelled.
Announce = Callable[[str, Callable[[float], Sequence[EngineClaim]]], Awaitable[None]]

_log = logging.getLogger(__name__)
_LAST_WRITE_SECONDS_MAX = 5.0
_END_MARGIN_SECONDS = 60.0


class Keeper:
    """Maintains the replicas that `settings.replicas` lists. An instance runs once."""

    def __init__(
        self,
        settings: FleetSettings,
        catalogue: Catalogue,
        store: Store,
        clock: Clock,
        *,
        probe: EngineProbe | None = None,
        sealing: Sealing | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_progress: OnProgress | None = None
        self._own_wants = wants_of(settings, catalogue)
        check_recipes(settings, self._own_wants)
        self._limits = limits_of(settings)
        self._table = RosterTable(store, sealing)
        self._known = Known(settings.unwritten_max)
        self._keys = EngineKeys(store, settings)
        self._gpus = HostGpus(settings.gpus)
        self._orders = OrderTable(store)
        self._logs = ReplicaLogs(store, sealing)
        self._reporter = HostReporter(HostReports(store), self._known, self._gpus, settings, clock)
        sources = open_sources(settings, store, self._keys, clock)
        self._memory, providers = sources.memory, sources.providers
        self._run_sources = sources.run
        probe = probe or EngineProbe(settings)
        self._observer = Observer(providers, probe, self._memory, clock, settings=settings)
        self._loads = EngineLoads(self._known, probe, settings, clock)
        self._actor = Actor(providers, self._known, self._memory, clock)
        self._progress = Progress(self._known, self._memory, clock)
        self._ids = (ReplicaId(new_id()) for _ in itertools.count())
        self._host = settings.host
        self._stop = asyncio.Event()
        self._has_looked = asyncio.Event()
        self._has_changed = asyncio.Event()
        # Set when there is something to do before the next heartbeat.
        self._is_called = asyncio.Event()
        self._weights = WeightFetches(
            settings, store.settings, self._limits, clock, self._is_called.set
        )
        self._told_weights: frozenset[str] = frozenset()
        self._is_ending = False
        self.failures = 0

    async def run(
        self,
        *,
        stop_replicas: bool = False,
        announce: Announce | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Run until `stop` is called. Replicas keep running, unless `stop_replicas` is set."""
        self._on_progress = on_progress
        self._host = self._settings.pool or self._host or socket.gethostname()
        keeper = await self._open()
        self._known.orders = await self._memory.read_orders()
        await self._keys.open()
        publisher = Publisher(self._table, self._known, self._clock, keeper)
        try:
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(self._beat()),
                    group.create_task(self._write_roster(publisher, keeper)),
                    group.create_task(self._loads.run()),
                    group.create_task(self._weights.run()),
                ]
                if self._run_sources is not None:
                    loops.append(group.create_task(self._run_sources()))
                if self._settings.obeys == "deployments":
                    loops.append(group.create_task(self._watch_orders()))
                if announce is not None:
                    loops.append(group.create_task(self._announce(announce, keeper)))
                await self._reconcile()
                if stop_replicas:
                    await self._end_replicas()
                for loop in loops:
                    loop.cancel()
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(_LAST_WRITE_SECONDS_MAX):
                    await publisher.publish()
        finally:
            await self._memory.close()

    async def drain(self, *, is_hurried: bool = False) -> None:
        """Drain attached servers, which end by themselves, and attach no more; call `stop` later.

        If `is_hurried`, list them as gone without waiting for their requests.
        """
        self._is_ending = True
        self._limits = limits_at_stop(self._settings, is_hurried=is_hurried)
        # The next step would ask engines for their health first, which may take seconds.
        for replica in self.replicas():
            if replica.state is ReplicaState.READY:
                drain = DrainReplica(replica.id, replica.generation, "its keeper ends")
                # The next step drains a replica for which this fails.
                with contextlib.suppress(Error, OSError):
                    await self._actor.act(drain, self._host)
        self._has_changed.set()
        self._is_called.set()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stop.set()
        self._is_called.set()

    def replicas(self) -> tuple[Replica, ...]:
        """Return this keeper's replicas."""
        return tuple(entry.replica for entry in self._known.replicas.values())

    def ready(self) -> tuple[Replica, ...]:
        """Return the ready replicas whose health checks succeed."""
        return tuple(
            entry.replica
            for entry in self._known.replicas.values()
            if entry.replica.state is ReplicaState.READY
            and entry.silent_since is None
            and not entry.replica.leader
        )

    def claims(self, now: float) -> list[EngineClaim]:
        """Return the latest claims of the ready engines."""
        return self._loads.claims(now)

    async def step(self) -> None:
        """Observe, plan and act once."""
        states = {id_: entry.replica.state for id_, entry in self._known.replicas.items()}
        self._known.gpus = await asyncio.to_thread(self._gpus.read)
        wants = self._wants()
        if wants is None:
            return
        observation = await self._observer.observe(self._known, self._host, wants)
        if not observation.unknown:
            # Only now is a row whose replica was not seen known to be out of date.
            self._has_looked.set()
        unfetched = await self._weights.missing(awaited_weights(wants, observation))
        self._note_parts(wants, unfetched)
        intent = Intent(
            wants=wants,
            limits=self._limits,
            orders=self._known.orders,
            is_stopping=self._is_ending,
            unfetched=frozenset(unfetched),
            lost_leaders=frozenset(self._known.lost_leaders),
        )
        seen = dict(self._known.replicas)
        actions = plan(intent, observation, self._clock.monotonic(), self._ids)
        self._note_waiting(reasons_to_wait(intent, observation, actions))
        self._note_fetching(intent, unfetched)
        for action in actions:
            if not isinstance(action, StopReplica):
                self._has_changed.set()
            try:
                await self._actor.act(action, self._host)
            except Superseded:
                # Another keeper has the replica, or it was drained since it was observed.
                extra = {"action": "action_refused", "replica": action.replica}
                _log.info("action refused", extra=extra)
        if self._on_progress is not None:
            for news in await self._progress.since(states, seen | self._known.replicas):
                self._on_progress(news)

    def _wants(self) -> tuple[Want, ...] | None:
        """Return what this keeper is to run; None while that is not known yet."""
        if self._settings.obeys == "settings":
            return self._own_wants
        assigned = self._known.orders.assigned
        provider = "kubernetes" if self._settings.pool else "process"
        return None if assigned is None else wants_of_assigned(assigned, provider)

    def _note_parts(self, wants: Iterable[Want], unfetched: Container[str]) -> None:
        """Keep which parts of replicas over several hosts could start, and which can no more."""
        parts = [want for want in wants if want.part.rank]
        self._known.lost_leaders &= {want.part.leader for want in parts}
        ready = frozenset(want.assignment for want in parts if want.name not in unfetched)
        if ready != self._known.parts_with_weights:
            self._known.parts_with_weights = ready
            self._has_changed.set()

    def _note_waiting(self, waiting: dict[ModelId, str]) -> None:
        """Keep why wanted replicas are not started, and log it when it changes."""
        before, self._known.waiting = self._known.waiting, waiting
        if waiting == before:
            return
        self._has_changed.set()
        for model, reason in waiting.items():
            if before.get(model) != reason:
                extra = {"action": "replica_waits", "model": model, "reason": reason}
                _log.warning("replica waits for GPUs", extra=extra)

    def _note_fetching(self, intent: Intent, unfetched: dict[str, Weights]) -> None:
        """Fetch the weights for which replicas wait, and keep how that goes on."""
        wants = intent.wants if intent.may_start else ()
        awaiting = fetched_now(wants, unfetched, self._known.waiting)
        self._weights.want(unfetched[want.name] for want in awaiting)
        before = self._known.fetching
        self._known.fetching = {
            want.model: self._weights.reason(unfetched[want.name]) for want in awaiting
        }
        # A fetch that fails or has stalled does not excuse a rollout that is late.
        self._known.fetching_assignments = tuple(
            want.assignment
            for want in awaiting
            if want.assignment and self._weights.is_going_on(unfetched[want.name])
        )
        if before.keys() != self._known.fetching.keys():
            self._has_changed.set()

    async def _open(self) -> str:
        """Lock the state folder, waiting up to `lock_wait_seconds` for a keeper that is ending."""
        deadline = self._clock.monotonic() + self._settings.lock_wait_seconds
        while True:
            try:
                return await self._memory.open()
            except Superseded:
                if self._clock.monotonic() >= deadline:
                    raise
            await asyncio.sleep(0.1)

    async def _reconcile(self) -> None:
        while not self._stop.is_set():
            self._is_called.clear()
            await self._guarded_step()
            await wait_for_event(self._is_called, self._settings.heartbeat_seconds)

    async def _end_replicas(self) -> None:
        """Drain and stop all replicas; give up after the longest time that this may take."""
        settings = self._settings
        self._is_ending = True
        longest = settings.drain_seconds + settings.stop_grace_seconds + _END_MARGIN_SECONDS
        deadline = self._clock.monotonic() + longest
        while self._clock.monotonic() < deadline:
            await self._guarded_step()
            if not self._known.replicas:
                return
            await asyncio.sleep(min(settings.heartbeat_seconds, 0.2))

    async def _guarded_step(self) -> None:
        try:
            await self.step()
        except Exception:  # noqa: BLE001 - the loop's top: the next step may succeed
            self.failures += 1
            _log.exception("keeper loop failed", extra={"action": "keeper_loop_failed"})

    async def _beat(self) -> None:
        """Touch the memory in a task of its own, so that a slow step does not delay it.

        Supervisors end engines whose keeper's alive file gets old, and the keeper of a pool must
        notice at once that it has lost the pool's lock.
        """
        while True:
            try:
                await self._memory.touch()
            except OSError as failure:
                extra = {"action": "keeper_beat_failed", "reason": str(failure)}
                _log.warning("keeper heartbeat not written", extra=extra)
            except Superseded as failure:
                # Another keeper has what was ours, and looks after it.
                extra = {"action": "keeper_superseded", "reason": failure.message}
                _log.error("keeper superseded", extra=extra)
                self.stop()
            await asyncio.sleep(self._settings.heartbeat_seconds)

    async def _announce(self, announce: Announce, keeper: str) -> None:
        try:
            await announce(keeper, self._loads.claims)
        except Exception:  # noqa: BLE001 - without it gateways only choose replicas less well
            self.failures += 1
            _log.exception("engine loads not announced", extra={"action": "announce_failed"})

    async def _write_roster(self, publisher: Publisher, keeper: str) -> None:
        # Before the first observation nothing is known, and publishing would give up all its rows.
        await self._await_orders(keeper)
        await self._has_looked.wait()
        is_away = False
        while True:
            self._has_changed.clear()
            try:
                await self._obey(keeper)
                await self._tell_weights()
                await publisher.publish(self._loads.figures(self._clock.monotonic()))
                await self._reporter.report(keeper, self._host)
                await self._logs.answer(keeper, self._memory)
            except StoreUnavailable:
                if not is_away:
                    _log.warning("roster not writable", extra={"action": "roster_unwritable"})
                is_away = True
            except Exception:  # noqa: BLE001 - the loop's top: replicas matter more than the roster
                self.failures += 1
                _log.exception("roster loop failed", extra={"action": "roster_loop_failed"})
            else:
                is_away = False
            # Changes are written at once, so that gateways learn of them within two seconds.
            await wait_for_event(self._has_changed, self._settings.heartbeat_seconds)

    async def _await_orders(self, keeper: str) -> None:
        """Report the host, and wait until control has told what it is to run."""
        while self._settings.obeys == "deployments" and self._known.orders.assigned is None:
            self._known.gpus = await asyncio.to_thread(self._gpus.read)
            with contextlib.suppress(StoreUnavailable):
                await self._reporter.report(keeper, self._host)
                await self._obey(keeper)
            await asyncio.sleep(self._settings.heartbeat_seconds)

    async def _watch_orders(self) -> None:
        """Call for the orders as soon as control has placed or ended a replica anywhere."""
        seen = 0
        while True:
            try:
                revision = await self._orders.revision()
            except StoreUnavailable:
                revision = seen
            except Exception:  # noqa: BLE001 - the loop's top: orders are read every heartbeat too
                self.failures += 1
                _log.exception("orders not watched", extra={"action": "orders_unwatched"})
                revision = seen
            if revision != seen:
                seen = revision
                self._has_changed.set()
            await asyncio.sleep(self._settings.heartbeat_seconds / 2)

    async def _tell_weights(self) -> None:
        """Tell which weights are here, once: first parts on other hosts wait for them."""
        told = self._known.parts_with_weights
        if told - self._told_weights:
            await self._orders.note_weights(told)
        self._told_weights = told

    async def _obey(self, keeper: str) -> None:
        """Read what operators ask, and keep it for a restart while Postgres is away."""
        orders = await self._orders.read(keeper)
        if orders != self._known.orders:
            await self._memory.write_orders(orders)
            self._known.orders = orders
            self._is_called.set()
            _log.info("orders changed", extra={"action": "orders_changed"})
