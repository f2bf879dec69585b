"""Writes the pods of a replica: the pool's template with the recipe's command. Pure."""

import re
from copy import deepcopy
from typing import Any, Final

import msgspec

from penstock.catalogue import LaunchValues, fill
from penstock.fleet.intent import Want
from penstock.records.dialect import VLLM, health_path
from penstock.records.model import Recipe
from penstock.records.replica import ReplicaId, ReplicaPart

LABEL: Final = "penstock.dev/"
APP: Final = "penstock-engine"
# Kubernetes puts the pod's own address here, in commands and in values of variables.
OWN_ADDRESS: Final = "$(POD_IP)"
_ENGINE: Final = "engine"
KEY_VARIABLE: Final = "PENSTOCK_ENGINE_KEY"
# Stands for the first pod's address in the manifests of the others.
_FIRST_ADDRESS: Final = "$(PENSTOCK_FIRST_POD)"
# The port of the first pod at which the others find it; a pod has all ports to itself.
_MASTER_PORT: Final = 29500
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_LOST_SECONDS: Final = 10
# Evictions come from others, so the pod itself waits until its requests have finished.
_LEAVE: Final = """
import os, time, urllib.request
names = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
time.sleep(%d)
while True:
    try:
        url = "http://%%s:%d/metrics" %% os.environ["POD_IP"]
        page = urllib.request.urlopen(url, timeout=5).read().decode()
    except OSError:
        break
    lines = [line for line in page.splitlines() if line.startswith(names)]
    if not sum(float(line.rsplit(" ", 1)[1]) for line in lines):
        break
    time.sleep(1)
"""


class PodOptions(msgspec.Struct, frozen=True):
    """What all pods of one keeper share."""

    pool: str
    # A pod's `spec`, with at least one container and its image.
    template: dict[str, Any]
    port: int = 8000
    engine_home: str = ""
    # How long requests may take to finish, and engines to end.
    grace_seconds: int = 700
    # How long engines may take to end when nothing runs there any more.
    stop_seconds: int = 75
    # How long gateways take to hear that it is drained.
    settle_seconds: int = 5


def manifests(
    replica: ReplicaId, want: Want, engine_key: str, owner: dict[str, Any], options: PodOptions
) -> list[dict[str, Any]]:
    """Return a replica's pods, the first one first.

    `owner` is a reference to the object that owns them: drains evict only pods that are owned.
    """
    recipe = want.recipe
    assert recipe is not None, "a launched want has its recipe"
    others = [
        _pod(replica, want, _values(recipe, engine_key, options, rank), options)
        for rank in range(1, recipe.hosts)
    ]
    first = _pod(replica, want, _values(recipe, engine_key, options, 0), options)
    for pod in (first, *others):
        pod["metadata"]["ownerReferences"] = [owner]
    if others:
        first["metadata"]["annotations"][f"{LABEL}others"] = msgspec.json.encode(others).decode()
    return [first, *others]


def other_manifests(others: str, first_address: str) -> list[dict[str, Any]]:
    """Return the further pods of a replica whose first pod has an address now."""
    text = others.replace(_FIRST_ADDRESS, first_address)
    return msgspec.json.decode(text, type=list[dict[str, Any]])


def engine_container(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the container of a template that becomes the engine: by its name, else the first."""
    containers: list[dict[str, Any]] = spec["containers"]
    return next((each for each in containers if each.get("name") == _ENGINE), containers[0])


def pod_name(replica: str, rank: int) -> str:
    return f"replica-{replica}" if rank == 0 else f"replica-{replica}-{rank}"


def _values(recipe: Recipe, engine_key: str, options: PodOptions, rank: int) -> LaunchValues:
    address = OWN_ADDRESS if rank == 0 else _FIRST_ADDRESS
    return LaunchValues(
        port=options.port,
        address=OWN_ADDRESS,
        engine_home=options.engine_home,
        # Kubernetes chooses them; an engine sees only its own, from 0 on.
        gpus=tuple(str(number) for number in range(recipe.gpus)),
        engine_key=engine_key,
        part=ReplicaPart(recipe.hosts, rank, master_address=address, master_port=_MASTER_PORT)
        if recipe.hosts > 1
        else ReplicaPart(),
    )


def _pod(
    replica: ReplicaId, want: Want, values: LaunchValues, options: PodOptions
) -> dict[str, Any]:
    assert want.recipe is not None, "a launched want has its recipe"
    rank = values.part.rank
    argv, environment = fill(want.recipe, values)
    spec = deepcopy(options.template)
    engine = engine_container(spec)
    engine.setdefault("name", _ENGINE)
    engine["command"], engine["args"] = argv[:1], argv[1:]
    engine["env"] = _variables(engine.get("env", []), environment, values.engine_key)
    if want.recipe.gpus:
        limits = engine.setdefault("resources", {}).setdefault("limits", {})
        limits["nvidia.com/gpu"] = str(want.recipe.gpus)
    engine.setdefault(
        "securityContext", {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    )
    if rank == 0:
        _serve(engine, want, options)
    spec |= {
        # An engine that ended is gone, and what comes after it has a new id.
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        # Else a Service called "vllm" would set VLLM_PORT in every pod.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": options.grace_seconds,
        "tolerations": [*spec.get("tolerations", []), *_TOLERATIONS],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(replica, rank),
            "labels": {
                "app.kubernetes.io/name": APP,
                "app.kubernetes.io/managed-by": "penstock",
                f"{LABEL}pool": options.pool,
                f"{LABEL}replica": replica,
                f"{LABEL}rank": str(rank),
                f"{LABEL}model": _UNSAFE.sub("-", want.model).strip("-_.")[:63].strip("-_."),
            },
            "annotations": {f"{LABEL}want": want.name, f"{LABEL}model": want.model},
        },
        "spec": spec,
    }


_TOLERATIONS: Final = (
    *(
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _LOST_SECONDS,
        }
        for condition in ("unreachable", "not-ready")
    ),
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
)


def _variables(
    given: list[dict[str, Any]], environment: dict[str, str], engine_key: str
) -> list[dict[str, Any]]:
    own: list[dict[str, Any]] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": KEY_VARIABLE, "value": engine_key},
    ]
    own += [{"name": name, "value": value} for name, value in environment.items()]
    names = {variable["name"] for variable in own}
    return [*own, *(variable for variable in given if variable["name"] not in names)]


def _serve(engine: dict[str, Any], want: Want, options: PodOptions) -> None:
    """Add what the cluster's own people look at, and the drain. The keeper judges health itself."""
    # Other engines may want a key for every path that they have.
    is_vllm = want.dialect == VLLM
    health = (
        {"httpGet": {"path": health_path(VLLM), "port": options.port}}
        if is_vllm
        else {"tcpSocket": {"port": options.port}}
    )
    engine.setdefault("ports", [{"name": "http", "containerPort": options.port}])
    start = int(want.start_seconds_max or 3600)
    probe = {**health, "periodSeconds": 5, "failureThreshold": max(1, start // 5)}
    engine.setdefault("startupProbe", probe)
    engine.setdefault("readinessProbe", {**health, "periodSeconds": 5, "timeoutSeconds": 5})
    script = _LEAVE % (options.settle_seconds, options.port)
    # Of other engines nobody knows how to ask for running requests.
    wait = ["python3", "-c", script] if is_vllm else ["sleep", str(options.settle_seconds)]
    engine.setdefault("lifecycle", {"preStop": {"exec": {"command": wait}}})
