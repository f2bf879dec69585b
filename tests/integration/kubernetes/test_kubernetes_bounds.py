"""What a pool's keeper may do in the cluster, and what a large pool costs it."""

import asyncio
import resource
import time
from pathlib import Path

from lightkube import codecs
from lightkube.core.async_client import AsyncClient
from lightkube.core.exceptions import ApiError
from lightkube.models.authorization_v1 import ResourceAttributes, SubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SubjectAccessReview
from lightkube.resources.core_v1 import Pod
from tests.integration.fleet.watched_keeper import until
from tests.integration.kubernetes.control_plane import ControlPlane

from penstock.clock import SystemClock
from penstock.errors import ReplicaUnreachable
from penstock.fleet.intent import Want
from penstock.fleet.providers.kubernetes.cluster import Cluster
from penstock.fleet.providers.kubernetes.pod_manifest import PodOptions, manifests
from penstock.fleet.providers.kubernetes.pod_view import by_replica, seen_replica
from penstock.records.model import ModelId, Recipe
from penstock.records.replica import ReplicaId

_BASE = Path(__file__).parents[3] / "deploy" / "kubernetes" / "base"
_KEEPER = "system:serviceaccount:penstock:penstock-keeper"
_ENGINES = "penstock-engines"
_PODS = 500

# Verb, resource, subresource or name, namespace.
_ALLOWED = (
    *((verb, "pods", "", _ENGINES) for verb in ("get", "list", "watch", "create", "delete")),
    ("get", "pods/log", "", _ENGINES),
    ("get", "configmaps", "penstock-replicas", _ENGINES),
)
_REFUSED = (
    *((verb, "pods", "", _ENGINES) for verb in ("update", "patch", "deletecollection")),
    ("create", "pods/exec", "", _ENGINES),
    ("create", "pods/eviction", "", _ENGINES),
    *((verb, "secrets", "", _ENGINES) for verb in ("get", "list", "create")),
    ("get", "configmaps", "another", _ENGINES),
    ("list", "configmaps", "", _ENGINES),
    ("delete", "configmaps", "penstock-replicas", _ENGINES),
    *(
        (verb, "pods", "", namespace)
        for verb in ("list", "create")
        for namespace in ("penstock", "")
    ),
    ("get", "secrets", "", "penstock"),
    ("list", "nodes", "", ""),
    ("create", "serviceaccounts/token", "", "penstock"),
)


async def test_the_keeper_may_do_what_it_does_and_nothing_else(admin: AsyncClient) -> None:
    wanted = [
        each
        for name in ("namespaces.yaml", "rbac.yaml")
        for each in codecs.load_all_yaml((_BASE / name).read_text())
    ]
    for each in wanted:
        try:
            await admin.create(each)
        except ApiError as refused:
            # A cluster that is given may have them.
            if refused.status.code != 409:
                raise
    allowed = [right for right in (*_ALLOWED, *_REFUSED) if await _may(admin, *right)]
    assert allowed == list(_ALLOWED)


async def _may(admin: AsyncClient, verb: str, kind: str, name: str, namespace: str) -> bool:
    resource_kind, _, below = kind.partition("/")
    asked = ResourceAttributes(
        verb=verb, resource=resource_kind, subresource=below, name=name, namespace=namespace
    )
    review = SubjectAccessReview(SubjectAccessReviewSpec(user=_KEEPER, resourceAttributes=asked))
    answer = await admin.create(review)
    return bool(answer.status and answer.status.allowed)


async def test_five_hundred_pods_are_seen_with_little_work(
    admin: AsyncClient, config_file: Path, namespace: str
) -> None:
    await _make_pods(admin, namespace)
    pool = Cluster("large", namespace, "none", str(config_file), SystemClock())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(pool.run())
        await until(lambda: _count(pool) == _PODS)
        seen = [seen_replica(pods, 8000) for pods in by_replica(pool.pods()).values()]
        took = time.process_time() - began
        running.cancel()
    assert len(seen) == _PODS
    assert took <= 1.0
    # Of a keeper's 80 MB; kilobytes.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 40_000


async def test_five_hundred_pods_cost_one_list_and_one_watch(
    admin: AsyncClient, cluster: ControlPlane, namespace: str
) -> None:
    await _make_pods(admin, namespace)
    pool = Cluster("large", namespace, "none", str(cluster.keeper_config_file), SystemClock())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(pool.run())
        await until(lambda: _count(pool) == _PODS)
        # What changes afterwards comes by the watch.
        await admin.delete(Pod, pool.pods()[0].name, namespace=namespace)
        await until(lambda: _count(pool) == _PODS - 1)
        running.cancel()
    asked = cluster.keeper_requests()
    # The small question every two seconds, by which a silent server is noticed.
    del asked["get configmaps"]
    assert asked == {"list pods": 1, "watch pods": 1}


def _count(pool: Cluster) -> int:
    try:
        return len(pool.pods())
    except ReplicaUnreachable:
        return 0


async def _make_pods(admin: AsyncClient, namespace: str) -> None:
    recipe = Recipe(("vllm", "serve", "{port}"), {"VLLM_API_KEY": "{engine_key}"}, gpus=8)
    want = Want("assigned:a", "kubernetes", ModelId("@cf/test/large"), 1, recipe=recipe)
    # No scheduler has this name, so that no node runs them.
    template = {"schedulerName": "none", "containers": [{"image": "vllm:1"}]}
    options = PodOptions("large", template)
    texts = []
    for number in range(_PODS):
        [pod] = manifests(ReplicaId(f"r{number:04}"), want, "key", {}, options)
        del pod["metadata"]["ownerReferences"]
        pod["metadata"]["namespace"] = namespace
        texts.append(pod)
    for first in range(0, _PODS, 20):
        async with asyncio.TaskGroup() as tasks:
            for pod in texts[first : first + 20]:
                tasks.create_task(_create(admin, pod))


async def _create(admin: AsyncClient, pod: dict[str, object]) -> None:
    await admin.create(codecs.from_dict(pod))
