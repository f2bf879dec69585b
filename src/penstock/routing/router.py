"""The routing room's one object: what is known about replicas now, and the choice among them."""

from collections.abc import Collection
from typing import Protocol

from penstock.errors import NoReplica
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId
from penstock.records.request import InferenceRequest
from penstock.routing.ejections import Ejections
from penstock.routing.outstanding import Outstanding
from penstock.routing.pick import least_in_flight
from penstock.routing.settings import Settings


class Roster(Protocol):
    """The port that `fleet` satisfies: replicas ready to serve a model."""

    def ready(self, model: ModelId) -> tuple[Replica, ...]: ...


class Router:
    """Picks a replica, and remembers what is in flight and what has failed."""

    def __init__(self, roster: Roster, settings: Settings) -> None:
        self._roster = roster
        self._turn = 0
        self.outstanding = Outstanding()
        self.ejections = Ejections(
            first_wait_seconds=settings.eject_seconds, interval_seconds=settings.probe_seconds
        )

    def pick(self, request: InferenceRequest, excluded: Collection[ReplicaId]) -> Replica:
        """The replica to try next. `excluded` has those that failed this very request."""
        self._turn += 1
        model = request.model.id
        candidates = self._roster.ready(model)
        out: Collection[ReplicaId] = excluded
        if self.ejections:
            out = {*excluded, *(r.id for r in candidates if r.id in self.ejections)}
        replica = least_in_flight(candidates, self.outstanding, excluded=out, start=self._turn)
        if replica is None and self.ejections:
            # All that is left is ejected: a try that may fail is better than a sure refusal.
            replica = least_in_flight(
                candidates, self.outstanding, excluded=excluded, start=self._turn
            )
        if replica is None:
            raise NoReplica(f"No replica of {model} can serve now.", retry_after_seconds=1)
        return replica

    def free(self, model: ModelId) -> bool:
        """Whether some replica has a slot. Admission's `Capacity`; no replica is not busy."""
        candidates = self._roster.ready(model)
        if not candidates:
            return True
        if self.ejections:
            candidates = tuple(r for r in candidates if r.id not in self.ejections) or candidates
        at = self.outstanding.at
        for replica in candidates:  # noqa: SIM110 - `any` of a generator costs five times as much
            if at(replica.id) < replica.slots_live:
                return True
        return False
