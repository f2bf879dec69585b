"""A replica of which only its address matters."""

from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState


def replica_at(url: str, engine_key: str = "") -> Replica:
    return Replica(
        ReplicaId("r"), ModelId("m"), url, ReplicaState.READY, "m", engine_key=engine_key
    )
