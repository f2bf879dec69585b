"""A pod as this provider sees it, and what it says of its replica. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from penstock.fleet.intent import Phase
from penstock.fleet.providers import SeenProcess
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId

_ENDED = frozenset({"Succeeded", "Failed"})


class PodView(msgspec.Struct, frozen=True):
    """What the API server says of one pod of ours."""

    name: str
    replica: str
    # Which part of a replica over several hosts it is.
    rank: int = 0
    want: str = ""
    model: str = ""
    # The engine's container, beside which others may run.
    container: str = ""
    engine_key: str = ""
    # The manifests of the replica's further pods, as a JSON list; they need this pod's address.
    others: str = ""
    # Kubernetes' own word, such as Pending or Running.
    phase: str = ""
    ip: str = ""
    node: str = ""
    # Whether its engine has answered the cluster's own probe.
    is_ready: bool = False
    # Whether it was told to end, by us or by anybody else.
    is_ending: bool = False
    # Why it waits or has ended, in the cluster's words.
    reason: str = ""
    # Whether the engine's container has ended; others may hold the pod.
    has_engine_ended: bool = False

    @property
    def has_ended(self) -> bool:
        return self.has_engine_ended or self.phase in _ENDED

    @property
    def other_count(self) -> int:
        """How many further pods its replica has."""
        return len(msgspec.json.decode(self.others)) if self.others else 0


def seen_replica(pods: Sequence[PodView], port: int) -> SeenProcess:
    """Return what the pods of one replica say of it: it ends as soon as one of them does."""
    parts = sorted(pods, key=lambda pod: pod.rank)
    first = parts[0]
    ended = next((pod for pod in parts if pod.has_ended), None)
    if ended is not None:
        phase, detail = Phase.ENDED, _end(ended)
    elif first.rank > 0 or (first.is_ready and len(parts) <= first.other_count):
        # It answered, so all pods were there once.
        phase, detail = Phase.ENDED, "one of its pods is gone"
    elif any(pod.is_ending for pod in parts):
        phase, detail = Phase.ENDING, "its pod is deleted in the cluster"
    else:
        phase, detail = Phase.ALIVE, next((pod.reason for pod in parts if pod.reason), "")
    return SeenProcess(
        id=ReplicaId(first.replica),
        want=first.want,
        model=ModelId(first.model),
        generation=1,
        url=f"http://{_bracketed(first.ip)}:{port}" if first.ip else "",
        phase=phase,
        detail=detail,
        is_reachable=phase is not Phase.ENDED and bool(first.ip),
        engine_key=first.engine_key,
        host=first.node,
        is_waiting=phase is Phase.ALIVE and not all(pod.node for pod in parts),
    )


def by_replica(pods: Iterable[PodView]) -> dict[str, list[PodView]]:
    found: dict[str, list[PodView]] = {}
    for pod in pods:
        found.setdefault(pod.replica, []).append(pod)
    return found


def _end(pod: PodView) -> str:
    return pod.reason or f"its pod is {pod.phase}"


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
