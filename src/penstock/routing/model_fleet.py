"""The replicas of one model that may take requests, indexed for the choice among them."""

from typing import Final

from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId
from penstock.routing.home import HomeRing
from penstock.routing.known_replica import KnownReplica

_LEAST_LOADED: Final = 4
_NO_MODEL: Final = ModelId("")


class ModelFleet:
    """One model's replicas, rebuilt when the roster or the ejections change."""

    def __init__(
        self,
        ready: tuple[Replica, ...],
        members: list[KnownReplica],
        version: int,
        model: ModelId = _NO_MODEL,
        account: str = "",
    ) -> None:
        self.model = model
        self.account = account
        self.ready = ready
        # Accounts for which some of the ready replicas are reserved.
        self.dedicated = frozenset(account for each in ready for account in each.accounts)
        # The version of the ejections that the members were filtered by.
        self.version = version
        self.members = members
        self.by_id: dict[ReplicaId, KnownReplica] = {m.id: m for m in members}
        self.by_number = {m.prefixes.number: m for m in members}
        self.least_loaded = self.members[:_LEAST_LOADED]
        self.pace = 0.0
        self.ticked_at = 0.0
        self._ring: HomeRing | None = None
        self.tick(0.0)

    def home(self, session: int) -> KnownReplica | None:
        """Return the session's home: the same replica on every gateway."""
        if self._ring is None:
            self._ring = HomeRing(self.by_id)
        home = self._ring.of(session)
        return None if home is None else self.by_id[home]

    def tick(self, now: float) -> None:
        """Update the mean pace, and the replicas with the shortest wait."""
        self.ticked_at = now
        members = self.members
        if not members:
            return
        self.pace = sum(m.seconds_per_token for m in members) / len(members)
        if len(members) > _LEAST_LOADED:
            waits = sorted(
                (m.seconds_per_token * m.queue(now), m.live_in_flight, at)
                for at, m in enumerate(members)
            )
            self.least_loaded = [members[at] for _, _, at in waits[:_LEAST_LOADED]]
