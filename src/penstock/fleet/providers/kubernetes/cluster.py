"""The door to the API server: one list, one watch, and what is done to pods.

Only this file knows the client library. The pods are kept up to date by `run`; they are unknown
while the server does not answer, because old news must not look like an empty cluster.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx2
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.async_client import AsyncClient
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.models.core_v1 import ContainerStateTerminated, PodStatus
from lightkube.resources.core_v1 import ConfigMap, Pod

from penstock.clock import Clock
from penstock.errors import ReplicaUnreachable
from penstock.fleet.providers.kubernetes.pod_manifest import KEY_VARIABLE, LABEL
from penstock.fleet.providers.kubernetes.pod_view import PodView

# A full list now and then, whatever the watch has said.
_LIST_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 2.0
_STALE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0
_LINES_MAX: Final = 2000

_log = logging.getLogger(__name__)
# The client's library tells of every request.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class Cluster:
    """The pods of one pool in one namespace."""

    def __init__(
        self, pool: str, namespace: str, owner: str, config_file: str, clock: Clock
    ) -> None:
        self._labels: dict[str, Any] = {f"{LABEL}pool": pool}
        self._namespace = namespace
        self._owner = owner
        self._config_file = config_file
        self._clock = clock
        self._client: AsyncClient | None = None
        self._pods: dict[str, PodView] | None = None
        # Pods that were created of late, and when.
        self._made: dict[str, tuple[float, PodView]] = {}
        # Why they are not known.
        self._reason = "The cluster's API server has not answered yet."
        # When the server was last heard of.
        self._heard_at = float("-inf")
        # Since when it refuses to list pods, though it may answer other questions.
        self._unread_since: float | None = None
        # Whether this keeper holds the pool's lock: without it, another one may have the pods.
        self.is_ours = True

    async def run(self) -> None:
        """Keep the pods up to date until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow())
                group.create_task(self._listen())
        finally:
            if self._client is not None:
                await self._client.close()
                self._client = None

    def pods(self) -> tuple[PodView, ...]:
        """Return the pods as they are now. Raises ReplicaUnreachable while that is not known."""
        if not self.is_ours:
            raise ReplicaUnreachable("Another keeper may have the pool: its lock was lost.")
        now = self._clock.monotonic()
        unread = 0.0 if self._unread_since is None else now - self._unread_since
        if self._pods is None or max(unread, now - self._heard_at) > _STALE_SECONDS:
            raise ReplicaUnreachable(self._reason)
        return tuple(self._pods.values())

    async def owner(self) -> dict[str, Any]:
        """Return a reference to the object that owns all pods of this keeper."""
        with_uid = await self._ask_owner()
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": self._owner,
            "uid": with_uid,
            "controller": True,
        }

    async def create(self, manifest: dict[str, Any]) -> None:
        """Create a pod; one of this name that is there already is the same one."""
        async with self._asking() as client:
            try:
                wanted = cast("Pod", Pod.from_dict(manifest))
                made = await client.create(wanted)
            except ApiError as refused:
                if refused.status.code != 409:
                    raise
                made = await client.get(Pod, manifest["metadata"]["name"])
        # The watch tells of it later; until then it must not look as if it had ended.
        view = _view(made)
        self._made[view.name] = (self._clock.monotonic(), view)
        if self._pods is not None:
            self._pods.setdefault(view.name, view)

    async def delete(self, name: str, grace_seconds: int | None = None) -> None:
        """Begin to end a pod; one that is gone is fine."""
        async with self._asking() as client:
            try:
                await client.delete(Pod, name, grace_period=grace_seconds)
            except ApiError as refused:
                if refused.status.code != 404:
                    raise

    async def log_lines(self, name: str) -> list[str]:
        """Return the last lines of an engine's log, each behind its time."""
        async with self._asking() as client:
            pod = (self._pods or {}).get(name)
            container = pod.container if pod else None
            read = client.log(name, container=container, tail_lines=_LINES_MAX, timestamps=True)
            try:
                return [line.rstrip("\n") async for line in read]
            except ApiError:
                # It has not been started, or is gone.
                return []

    async def _ask_owner(self) -> str:
        async with self._asking() as client:
            found = await client.get(ConfigMap, self._owner)
            self._heard_at = self._clock.monotonic()
            uid = found.metadata.uid if found.metadata else None
        return uid or ""

    async def _listen(self) -> None:
        """Ask for something small, so that a server which is silent is noticed."""
        is_away = False
        while True:
            try:
                await self._ask_owner()
                is_away = False
            except ReplicaUnreachable as failure:
                if not is_away:
                    extra = {"action": "cluster_silent", "reason": failure.message}
                    _log.warning("cluster does not answer", extra=extra)
                is_away = True
            except Exception:  # noqa: BLE001 - the loop's top: the keeper must go on
                _log.exception("cluster not asked", extra={"action": "cluster_ask_failed"})
            await asyncio.sleep(_ASK_SECONDS)

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_LIST_SECONDS):
                    await self._list_and_watch()
            except TimeoutError:
                continue
            except ReplicaUnreachable as failure:
                if self._unread_since is None:
                    extra = {"action": "cluster_unread", "reason": failure.message}
                    _log.warning("pods not read", extra=extra)
                await self._note_unread(failure.message)
            except Exception as failure:  # noqa: BLE001 - the loop's top: the keeper must go on
                _log.exception("pods not read", extra={"action": "cluster_unread"})
                await self._note_unread(f"The pods cannot be read: {failure!r}")

    async def _note_unread(self, reason: str) -> None:
        """Keep since when and why; whoever looks at the pods is told. Wait before the next try."""
        self._reason = reason
        if self._unread_since is None:
            self._unread_since = self._clock.monotonic()
        await asyncio.sleep(_RETRY_SECONDS)

    async def _list_and_watch(self) -> None:
        began = self._clock.monotonic()
        async with self._asking() as client:
            listing = client.list(Pod, labels=self._labels)
            pods = {}
            async for pod in listing:
                view = _view(pod)
                pods[view.name] = view
            self._made = {name: made for name, made in self._made.items() if made[0] >= began}
            for name, (_, view) in self._made.items():
                pods.setdefault(name, view)
            self._pods, self._heard_at = pods, self._clock.monotonic()
            self._unread_since = None
            version = listing.resourceVersion
            async for kind, pod in client.watch(Pod, labels=self._labels, resource_version=version):
                view = _view(pod)
                if kind == "DELETED":
                    pods.pop(view.name, None)
                else:
                    pods[view.name] = view
                self._heard_at = self._clock.monotonic()

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[AsyncClient]:
        try:
            if self._client is None:
                self._client = self._open()
            yield self._client
        except (httpx2.HTTPError, ConfigError, OSError) as failure:
            raise ReplicaUnreachable(f"The cluster answers: {failure}") from None

    def _open(self) -> AsyncClient:
        file = self._config_file
        config = KubeConfig.from_file(file) if file else KubeConfig.from_service_account()
        # Without one of its own, that of the configuration or of the keeper's own pod.
        return AsyncClient(config=config, namespace=self._namespace or None, trust_env=False)


def _view(pod: Pod) -> PodView:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    labels = (meta.labels if meta else None) or {}
    notes = (meta.annotations if meta else None) or {}
    name, key = "", ""
    for container in spec.containers if spec else []:
        for variable in container.env or []:
            # Ours alone has it; the cluster may have added containers of its own.
            if variable.name == KEY_VARIABLE:
                name, key = container.name, variable.value or ""
    return PodView(
        name=(meta.name if meta else None) or "",
        replica=labels.get(f"{LABEL}replica", ""),
        rank=int(labels.get(f"{LABEL}rank", "0")),
        want=notes.get(f"{LABEL}want", ""),
        model=notes.get(f"{LABEL}model", ""),
        container=name,
        engine_key=key,
        others=notes.get(f"{LABEL}others", ""),
        phase=(status.phase if status else None) or "",
        ip=(status.podIP if status else None) or "",
        node=(spec.nodeName if spec else None) or "",
        is_ready=any(
            each.type == "Ready" and each.status == "True"
            for each in (status.conditions if status else None) or []
        ),
        is_ending=bool(meta and meta.deletionTimestamp),
        reason=_reason(status, name),
        has_engine_ended=_engine_end(status, name) is not None,
    )


def _engine_end(status: PodStatus | None, name: str) -> ContainerStateTerminated | None:
    """Return how the engine's container has ended; None while it has not."""
    for container in (status.containerStatuses if status else None) or []:
        if container.name == name and container.state and container.state.terminated:
            return container.state.terminated
    return None


def _reason(status: PodStatus | None, engine: str) -> str:
    """Return why a pod waits or has ended, in the cluster's words; "" for nothing to say."""
    if status is None:
        return ""
    ended = _engine_end(status, engine)
    if ended is not None:
        return f"{ended.reason or 'ended'}, exit code {ended.exitCode}"
    for container in status.containerStatuses or []:
        waits = container.state.waiting if container.state else None
        if waits is not None and waits.reason not in (None, "ContainerCreating", "PodInitializing"):
            return f"{waits.reason}: {waits.message or ''}".rstrip(": ")
    for condition in status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason or ""
    # Evicted pods say it here.
    return f"{status.reason}: {status.message or ''}".rstrip(": ") if status.reason else ""
