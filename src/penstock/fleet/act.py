"""Executes the actions that `plan` returns, and decides nothing itself.

An action names the generation it was planned for, and is refused if the replica has another one by
now. A replica's new state is on disk before `act` returns, for the keeper after a restart.
"""

import logging
from collections.abc import Mapping
from typing import assert_never

from penstock.clock import Clock
from penstock.errors import Error, GenerationStale
from penstock.fleet.known import Known, WatchedReplica
from penstock.fleet.memory import KeeperMemory
from penstock.fleet.plan import Action, DrainReplica, Forget, MarkReady, StartReplica, StopReplica
from penstock.fleet.providers import Provider
from penstock.records.replica import Replica, ReplicaState

_log = logging.getLogger(__name__)


class Actor:
    """Executes actions on the keeper's own replicas."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        known: Known,
        memory: KeeperMemory,
        clock: Clock,
    ) -> None:
        self._providers = providers
        self._known = known
        self._memory = memory
        self._clock = clock

    async def act(self, action: Action, host: str) -> None:
        """Execute an action. Raises GenerationStale if it was planned for another generation."""
        if isinstance(action, StartReplica):
            await self._start(action, host)
            return
        entry = self._known.replicas.get(action.replica)
        if entry is None or entry.replica.generation != action.generation:
            raise GenerationStale(f"{action.replica} is not at generation {action.generation}.")
        match action:
            case MarkReady():
                entry.detail = ""
                await self._move(entry, ReplicaState.READY)
            case DrainReplica():
                entry.detail = action.reason
                entry.is_failed = action.is_failure
                await self._move(entry, ReplicaState.DRAINING)
            case StopReplica():
                await self._stop(entry, action)
            case Forget():
                await self._forget(entry, action)
            case _:
                assert_never(action)

    async def _start(self, action: StartReplica, host: str) -> None:
        want = action.want
        replica = Replica(
            id=action.replica,
            model=want.model,
            url=want.url,
            state=ReplicaState.STARTING,
            served_name=want.served_name,
            dialect=want.dialect,
            slots_live=want.slots_live,
            generation=action.generation,
            host=host,
            has_priority=want.has_priority,
            gpus=action.gpus,
            assignment=want.assignment,
            accounts=want.accounts,
            leader=want.part.leader,
        )
        entry = WatchedReplica(replica, want.name, want.provider, self._clock.monotonic())
        self._known.replicas[replica.id] = entry
        try:
            await self._providers[want.provider].start(replica.id, want, action.gpus)
        except (OSError, Error) as failure:
            # The next look observes this replica as ended, and counts its failure for the back-off.
            entry.detail = f"could not be started: {failure}"
        await self._note(entry)
        _log.info("replica started", extra=_fields("replica_started", entry))

    async def _move(self, entry: WatchedReplica, state: ReplicaState) -> None:
        entry.move(state, self._clock.monotonic())
        await self._note(entry)
        _log.info("replica moved", extra=_fields("replica_moved", entry))

    async def _stop(self, entry: WatchedReplica, action: StopReplica) -> None:
        try:
            await self._providers[entry.provider].stop(action.replica)
        except (OSError, Error) as failure:
            # The next plan returns the stop action again.
            extra = _fields("replica_stop_failed", entry) | {"reason": str(failure)}
            _log.warning("replica not stopped", extra=extra)

    async def _forget(self, entry: WatchedReplica, action: Forget) -> None:
        entry.detail = action.reason
        entry.move(ReplicaState.GONE, self._clock.monotonic())
        if action.failures is not None:
            self._known.failures[entry.want] = action.failures
        if entry.replica.leader:
            self._known.lost_leaders.add(entry.replica.leader)
        self._known.forget(action.replica)
        await self._memory.retire(action.replica)
        _log.info("replica gone", extra=_fields("replica_gone", entry))

    async def _note(self, entry: WatchedReplica) -> None:
        mark = entry.mark(self._clock.now())
        await self._memory.write_mark(entry.replica.id, mark)


def _fields(action: str, entry: WatchedReplica) -> dict[str, object]:
    replica = entry.replica
    return {
        "action": action,
        "replica": replica.id,
        "model": replica.model,
        "state": str(replica.state),
        "generation": replica.generation,
        "detail": entry.detail,
    }
