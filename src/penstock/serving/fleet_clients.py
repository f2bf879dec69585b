"""One client per replica of the roster, made when first needed, closed when the replica is gone."""

from collections.abc import Iterable

from penstock.clock import Clock, TimerWheel
from penstock.engine.replica import ReplicaClient
from penstock.engine.settings import EngineSettings
from penstock.records.engine_load import EngineLoad
from penstock.records.replica import Replica, ReplicaId


class FleetClients:
    """Keeps the clients of the roster's replicas: `keep_only` is called whenever that changes."""

    def __init__(self, settings: EngineSettings, wheel: TimerWheel, clock: Clock) -> None:
        self._settings = settings
        self._wheel = wheel
        self._clock = clock
        self._clients: dict[ReplicaId, ReplicaClient] = {}

    def to(self, replica: Replica) -> ReplicaClient:
        client = self._clients.get(replica.id)
        if client is None or client.replica.url != replica.url:
            if client is not None:
                client.close()
            client = ReplicaClient(replica, self._settings, self._wheel, self._clock)
            self._clients[replica.id] = client
        return client

    def keep_only(self, replicas: Iterable[Replica]) -> None:
        known = {replica.id for replica in replicas}
        for replica_id in [r for r in self._clients if r not in known]:
            self._clients.pop(replica_id).close()

    def find(self, replica: ReplicaId) -> ReplicaClient | None:
        return self._clients.get(replica)

    def silent(self, now: float) -> list[ReplicaId]:
        """Return replicas that have requests and send nothing; called several times a second."""
        return [id_ for id_, client in self._clients.items() if client.is_silent(now)]

    def loads(self, now: float) -> list[tuple[ReplicaId, EngineLoad]]:
        """Return the loads that engines reported with their last answers."""
        return [
            (id_, load)
            for id_, client in self._clients.items()
            if (load := client.take_load(now)) is not None
        ]

    def open_connections(self) -> int:
        return sum(client.open_connections for client in self._clients.values())

    def close(self) -> None:
        self.keep_only(())
