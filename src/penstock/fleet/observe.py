"""Observes all replicas: combines providers' processes, engines' health and the keeper's memory.

A provider that cannot be queried is reported as unknown. A replica that a provider reports but the
keeper does not know is adopted under the next generation, so that its previous keeper is refused.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from penstock.clock import Clock
from penstock.errors import Error, ReplicaUnreachable
from penstock.fleet.health import EngineProbe
from penstock.fleet.intent import FleetObservation, Observed, Phase, Want
from penstock.fleet.known import Known, WatchedReplica
from penstock.fleet.memory import KeeperMemory
from penstock.fleet.providers import Provider, SeenProcess
from penstock.fleet.replica_files import Mark
from penstock.fleet.settings import FleetSettings
from penstock.records.host import Gpu
from penstock.records.replica import Replica, ReplicaId, ReplicaState

_log = logging.getLogger(__name__)


class Observer:
    """Updates the keeper's memory and returns an immutable snapshot of it."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        probe: EngineProbe,
        memory: KeeperMemory,
        clock: Clock,
        *,
        settings: FleetSettings,
    ) -> None:
        self._providers = providers
        self._wants: dict[str, Want] = {}
        self._probe = probe
        self._memory = memory
        self._clock = clock
        self._settings = settings
        self._unknown: frozenset[str] = frozenset()

    async def observe(self, known: Known, host: str, wants: tuple[Want, ...]) -> FleetObservation:
        self._wants = {want.name: want for want in wants}
        seen = await self._ask_providers()
        for name, list_ in seen.items():
            for one in list_:
                if one.id not in known.replicas and one.id not in known.ended:
                    adopted = await self._adopt(one, name, host, known.gpus)
                    if adopted is not None:
                        known.replicas[one.id] = adopted
        by_id = {one.id: one for list_ in seen.values() for one in list_}
        phases = {
            replica: by_id[replica].phase if replica in by_id else Phase.ENDED
            for replica, entry in known.replicas.items()
            if entry.provider in seen
        }
        await self._ask_engines(known, by_id, phases)
        pictures = [
            await self._picture(entry, by_id.get(replica), phases.get(replica))
            for replica, entry in known.replicas.items()
        ]
        return FleetObservation(
            replicas=tuple(pictures),
            unknown=self._unknown,
            failures=dict(known.failures),
            gpus=known.gpus,
        )

    async def _ask_providers(self) -> dict[str, tuple[SeenProcess, ...]]:
        seen: dict[str, tuple[SeenProcess, ...]] = {}
        for name, provider in self._providers.items():
            try:
                seen[name] = await provider.observe()
            except (OSError, Error) as failure:
                extra = {"action": "provider_unknown", "provider": name, "reason": str(failure)}
                _log.warning("provider cannot be asked", extra=extra)
        self._unknown = frozenset(self._providers) - frozenset(seen)
        return seen

    async def _adopt(
        self, seen: SeenProcess, provider: str, host: str, all_gpus: Sequence[Gpu]
    ) -> WatchedReplica | None:
        """Return a replica that an earlier keeper started; None for one that was given up."""
        mark = await self._memory.read_mark(seen.id)
        if mark is not None and mark.state is ReplicaState.GONE:
            try:
                await self._providers[provider].stop(seen.id)
            except ReplicaUnreachable as failure:
                # It is tried again at the next step; the others go on.
                extra = {"action": "ghost_not_ended", "replica": seen.id, "reason": str(failure)}
                _log.warning("replica not ended", extra=extra)
            return None
        mark = mark or Mark(ReplicaState.STARTING, seen.generation, self._clock.now())
        want = self._wants.get(seen.want)
        replica = Replica(
            id=seen.id,
            model=seen.model,
            url=seen.url,
            state=mark.state,
            served_name=mark.served_name,
            dialect=want.dialect if want else "vllm",
            slots_live=want.slots_live if want else 256,
            generation=mark.generation + 1,
            host=seen.host or host,
            has_priority=want is not None and want.has_priority,
            gpus=seen.gpus or _gpus_it_may_hold(want, all_gpus),
            engine_key=seen.engine_key,
            assignment=want.assignment if want else "",
            accounts=want.accounts if want else (),
            leader=seen.leader,
            master_port=seen.master_port,
        )
        # The file has wall time; a clock that was set back must not give a negative age.
        age = max(0.0, self._clock.now() - mark.changed_at)
        since = self._clock.monotonic() - age
        known = WatchedReplica(replica, seen.want, provider, since, detail=mark.detail)
        known.ready_since = since if mark.state is ReplicaState.READY else None
        adopted = msgspec.structs.replace(mark, generation=replica.generation)
        await self._memory.write_mark(seen.id, adopted)
        extra = {"action": "replica_adopted", "replica": seen.id, "model": seen.model}
        _log.info("replica adopted", extra=extra)
        return known

    async def _ask_engines(
        self,
        known: Known,
        by_id: Mapping[ReplicaId, SeenProcess],
        phases: Mapping[ReplicaId, Phase],
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for replica, phase in phases.items():
                entry = known.replicas[replica]
                if phase is Phase.ENDED:
                    entry.is_healthy = False
                    continue
                seen = by_id[replica]
                # The provider chose these when it started the replica.
                entry.replica = msgspec.structs.replace(
                    entry.replica,
                    url=seen.url,
                    engine_key=seen.engine_key,
                    master_port=seen.master_port,
                    host=seen.host or entry.replica.host,
                    accounts=self._accounts_of(entry),
                )
                if entry.replica.state is ReplicaState.STARTING:
                    self._note_start(entry, seen)
                if seen.leader:
                    # It answers nobody: it is well while it runs, and has no requests of its own.
                    entry.running = 0
                    self._note(entry, is_well=True)
                elif not seen.is_reachable:
                    self._note(entry, is_well=False)
                elif self._is_due(entry):
                    group.create_task(self._ask(entry))

    def _note_start(self, entry: WatchedReplica, seen: SeenProcess) -> None:
        if seen.detail or not seen.is_reachable:
            entry.detail = seen.detail
        if seen.is_waiting:
            # Its time to start begins when there is a machine for it.
            entry.since = self._clock.monotonic()

    def _accounts_of(self, entry: WatchedReplica) -> tuple[str, ...]:
        """Return whom the replica serves now; a replica that is not wanted keeps its accounts."""
        want = self._wants.get(entry.want)
        return entry.replica.accounts if want is None else want.accounts

    def _is_due(self, entry: WatchedReplica) -> bool:
        if entry.replica.state is not ReplicaState.READY or entry.asked_at is None:
            return True
        waited = self._clock.monotonic() - entry.asked_at
        return waited >= self._settings.health_interval_seconds

    async def _ask(self, entry: WatchedReplica) -> None:
        is_well = await self._probe.is_healthy(entry.replica)
        if is_well and entry.replica.state is ReplicaState.STARTING:
            is_well = await self._learn_name(entry)
        if entry.replica.state is ReplicaState.DRAINING:
            entry.running = await self._probe.running(entry.replica) if is_well else None
        self._note(entry, is_well=is_well)

    def _note(self, entry: WatchedReplica, *, is_well: bool) -> None:
        entry.asked_at = self._clock.monotonic()
        entry.is_healthy = is_well
        if is_well:
            entry.silent_since = None
        elif entry.silent_since is None:
            entry.silent_since = entry.asked_at

    async def _learn_name(self, entry: WatchedReplica) -> bool:
        """Set the served name: from the recipe if launched, otherwise by asking the server."""
        want = self._wants.get(entry.want)
        expected = want.served_name if want else ""
        name = expected if entry.provider == "process" else ""
        if not name:
            try:
                names = await self._probe.served_names(entry.replica)
            except ReplicaUnreachable as failure:
                entry.detail = failure.message
                return False
            name = _best_name(names, expected, entry.replica.model)
        entry.replica = msgspec.structs.replace(entry.replica, served_name=name)
        entry.detail = "" if name else "it serves no model"
        return bool(name)

    async def _picture(
        self, entry: WatchedReplica, seen: SeenProcess | None, phase: Phase | None
    ) -> Observed:
        if phase is Phase.ENDED and entry.replica.state is not ReplicaState.DRAINING:
            entry.detail = (seen.detail if seen else "") or entry.detail or "nothing is left of it"
            if entry.ready_since is None and entry.provider == "process":
                # The replica never took a request, so its log cannot quote a caller.
                line = await self._memory.last_line(entry.replica.id)
                entry.detail += f": {line}" if line else ""
        # An unknown provider has no phases; the planner ignores its replicas, so any value works.
        return entry.observed(phase or Phase.ALIVE)


def _gpus_it_may_hold(want: Want | None, all_gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Return every GPU of the host: a keeper of an earlier release did not write which it gave."""
    return tuple(gpu.id for gpu in all_gpus) if want is not None and want.gpus else ()


def _best_name(names: tuple[str, ...], expected: str, model: str) -> str:
    for name in (expected, model):
        if name and name in names:
            return name
    return names[0] if names else ""
