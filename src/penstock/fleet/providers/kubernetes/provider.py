"""Starts, finds and ends replicas as pods."""

import msgspec

from penstock.errors import ReplicaUnreachable
from penstock.fleet.engine_keys import EngineKeys
from penstock.fleet.intent import Want
from penstock.fleet.providers import SeenProcess
from penstock.fleet.providers.kubernetes.cluster import Cluster
from penstock.fleet.providers.kubernetes.pod_manifest import (
    PodOptions,
    manifests,
    other_manifests,
)
from penstock.fleet.providers.kubernetes.pod_view import PodView, by_replica, seen_replica
from penstock.records.replica import ReplicaId

NAME = "kubernetes"


class KubernetesProvider:
    """A pod for each replica id, or for each of its parts. Ids are never used twice."""

    def __init__(self, cluster: Cluster, keys: EngineKeys, options: PodOptions) -> None:
        self._cluster = cluster
        self._keys = keys
        self._options = options
        # Replicas all of whose pods were created; what is missing since then is gone.
        self._complete: set[str] = set()

    async def observe(self) -> tuple[SeenProcess, ...]:
        found = by_replica(self._cluster.pods())
        self._complete &= found.keys()
        return tuple([await self._seen(pods) for pods in found.values()])

    async def _seen(self, pods: list[PodView]) -> SeenProcess:
        seen = seen_replica(pods, self._options.port)
        try:
            await self._add_others(pods)
        except ReplicaUnreachable as refused:
            # One replica that the cluster refuses must not hide all others.
            return msgspec.structs.replace(seen, detail=refused.message, is_reachable=False)
        return seen

    async def start(self, replica: ReplicaId, want: Want, gpus: tuple[str, ...] = ()) -> None:
        assert not gpus, "the cluster chooses GPUs"
        assert want.recipe is not None, "a launched want has its recipe"
        owner = await self._cluster.owner()
        key = self._keys.new_key(want.recipe)
        first, *_ = manifests(replica, want, key, owner, self._options)
        await self._cluster.create(first)

    async def stop(self, replica: ReplicaId) -> None:
        for pod in by_replica(self._cluster.pods()).get(replica, ()):
            if not pod.is_ending:
                await self._cluster.delete(pod.name, self._options.stop_seconds)

    async def _add_others(self, pods: list[PodView]) -> None:
        """Create the further pods of a replica once, when its first one has an address."""
        first = min(pods, key=lambda pod: pod.rank)
        is_over = first.is_ending or first.has_ended or first.is_ready
        if first.replica in self._complete or is_over or not (first.others and first.ip):
            return
        for manifest in other_manifests(first.others, first.ip):
            await self._cluster.create(manifest)
        self._complete.add(first.replica)
