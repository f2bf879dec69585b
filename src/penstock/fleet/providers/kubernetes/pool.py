"""Builds what the keeper of a pool needs from its settings."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from penstock.clock import Clock
from penstock.errors import InvalidRequest
from penstock.fleet.engine_keys import EngineKeys
from penstock.fleet.providers.kubernetes.cluster import Cluster
from penstock.fleet.providers.kubernetes.pod_manifest import PodOptions, engine_container
from penstock.fleet.providers.kubernetes.pool_memory import PoolMemory
from penstock.fleet.providers.kubernetes.provider import NAME, KubernetesProvider
from penstock.fleet.settings import FleetSettings
from penstock.store.pool import Store

# More than a drain takes, so that the cluster never cuts off what the keeper would wait for.
_GRACE_MARGIN_SECONDS = 30


class Pool(msgspec.Struct, frozen=True):
    """A pool's parts."""

    memory: PoolMemory
    provider: KubernetesProvider
    cluster: Cluster


def open_pool(settings: FleetSettings, store: Store, keys: EngineKeys, clock: Clock) -> Pool:
    """Return the parts; InvalidRequest if the template cannot be used. Asks nobody yet."""
    options = PodOptions(
        pool=settings.pool,
        template=_template(settings.pod_template),
        port=settings.pod_port,
        engine_home=settings.engine_home,
        grace_seconds=int(
            settings.drain_seconds + settings.stop_grace_seconds + _GRACE_MARGIN_SECONDS
        ),
        stop_seconds=int(settings.stop_grace_seconds),
        settle_seconds=int(settings.drain_settle_seconds) + 2,
    )
    cluster = Cluster(
        settings.pool,
        settings.pod_namespace,
        settings.pod_owner,
        settings.kube_config_file,
        clock,
    )
    memory = PoolMemory(settings.pool, store, cluster)
    return Pool(memory, KubernetesProvider(cluster, keys, options), cluster)


def _template(path: str) -> dict[str, Any]:
    """Return the `spec` of the pods, with at least one container that has an image."""
    try:
        spec = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as failure:
        raise InvalidRequest(
            f"fleet.pod_template {path}: {failure}", param="pod_template"
        ) from None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    is_list = isinstance(containers, list) and all(isinstance(each, dict) for each in containers)
    if not containers or not is_list or not engine_container(spec).get("image"):
        raise InvalidRequest(
            f"fleet.pod_template {path} needs `containers`; the one that is called `engine`, or"
            " else the first, needs an `image`.",
            param="pod_template",
        )
    found: dict[str, Any] = spec
    return found


__all__ = ["NAME", "Pool", "open_pool"]
