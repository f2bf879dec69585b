"""What a pod says of its replica, and what a replica's pods are made of."""

import msgspec

from penstock.errors import ReplicaUnreachable
from penstock.fleet.intent import Phase, Want
from penstock.fleet.providers.kubernetes.pod_manifest import (
    OWN_ADDRESS,
    PodOptions,
    manifests,
    other_manifests,
)
from penstock.fleet.providers.kubernetes.pod_view import PodView, seen_replica
from penstock.fleet.providers.kubernetes.provider import KubernetesProvider
from penstock.records.model import ModelId, Recipe
from penstock.records.replica import ReplicaId

_RECIPE = Recipe(
    ("vllm", "serve", "m", "--host", "{address}", "--port", "{port}", "-tp", "{gpu_count}"),
    {"VLLM_API_KEY": "{engine_key}"},
    gpus=8,
)
_OPTIONS = PodOptions(
    "h200",
    {
        "nodeSelector": {"gpu": "h200"},
        "containers": [{"image": "vllm:1", "env": [{"name": "HF_HOME", "value": "/models"}]}],
    },
)
_OWNER = {"kind": "ConfigMap", "name": "penstock-replicas", "uid": "u1"}
_ID = ReplicaId("0193-a")


def _want(recipe: Recipe) -> Want:
    model = ModelId("@cf/moonshotai/kimi-k2.5")
    return Want("assigned:a1", "kubernetes", model, 1, recipe=recipe, start_seconds_max=600.0)


def test_a_pod_is_the_pools_template_with_the_recipes_command() -> None:
    [pod] = manifests(_ID, _want(_RECIPE), "secret", _OWNER, _OPTIONS)
    spec, meta = pod["spec"], pod["metadata"]
    [engine] = spec["containers"]
    assert [*engine["command"], *engine["args"]] == [
        *("vllm", "serve", "m", "--host", OWN_ADDRESS, "--port", "8000", "-tp", "8"),
    ]
    variables = {each["name"]: each.get("value") for each in engine["env"]}
    assert variables["VLLM_API_KEY"] == variables["PENSTOCK_ENGINE_KEY"] == "secret"
    assert variables["HF_HOME"] == "/models"
    # Kubernetes fills in the address only where the variable stands before those that use it.
    assert engine["env"][0]["name"] == "POD_IP"
    assert engine["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert (spec["nodeSelector"], engine["image"]) == ({"gpu": "h200"}, "vllm:1")
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
    assert "livenessProbe" not in engine
    assert engine["startupProbe"]["failureThreshold"] == 120
    assert (meta["name"], meta["ownerReferences"]) == ("replica-0193-a", [_OWNER])
    # Labels take few characters.
    assert meta["labels"]["penstock.dev/model"] == "cf-moonshotai-kimi-k2.5"
    assert meta["annotations"]["penstock.dev/model"] == "@cf/moonshotai/kimi-k2.5"
    # The template is not changed, or the next replica would inherit of this one.
    assert "command" not in _OPTIONS.template["containers"][0]


def test_what_the_template_says_of_its_container_stays() -> None:
    own = {"containers": [{"image": "i", "lifecycle": {}, "securityContext": {"runAsUser": 7}}]}
    options = msgspec.structs.replace(_OPTIONS, template=own)
    [pod] = manifests(_ID, _want(_RECIPE), "", _OWNER, options)
    [engine] = pod["spec"]["containers"]
    assert (engine["lifecycle"], engine["securityContext"]) == ({}, {"runAsUser": 7})


def test_the_engine_may_have_other_containers_beside_it() -> None:
    own = {"containers": [{"name": "logs", "image": "l"}, {"name": "engine", "image": "i"}]}
    options = msgspec.structs.replace(_OPTIONS, template=own)
    [pod] = manifests(_ID, _want(_RECIPE), "", _OWNER, options)
    logs, engine = pod["spec"]["containers"]
    assert logs == {"name": "logs", "image": "l"}
    assert engine["command"] == ["vllm"]
    # The others hold the pod when its engine has ended.
    alone = msgspec.structs.replace(_POD, has_engine_ended=True, reason="Error, exit code 1")
    assert _seen(alone) == (Phase.ENDED, "Error, exit code 1", False)


def test_an_engine_that_is_not_vllm_is_asked_for_nothing() -> None:
    want = msgspec.structs.replace(_want(_RECIPE), dialect="openai")
    [pod] = manifests(_ID, want, "", _OWNER, _OPTIONS)
    [engine] = pod["spec"]["containers"]
    assert engine["startupProbe"]["tcpSocket"] == {"port": 8000}
    assert engine["readinessProbe"]["tcpSocket"] == {"port": 8000}
    assert engine["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]


def test_further_pods_get_the_first_ones_address() -> None:
    recipe = msgspec.structs.replace(
        _RECIPE,
        command=("vllm", "{port}", "-r={node_rank}", "{master_address}:{master_port}"),
        hosts=2,
        part_arguments=("--headless",),
    )
    first, other = manifests(_ID, _want(recipe), "secret", _OWNER, _OPTIONS)
    assert first["spec"]["containers"][0]["args"] == ["8000", "-r=0", f"{OWN_ADDRESS}:29500"]
    kept = first["metadata"]["annotations"]["penstock.dev/others"]
    [made] = other_manifests(kept, "10.1.2.3")
    assert made["metadata"]["name"] == other["metadata"]["name"] == "replica-0193-a-1"
    assert made["spec"]["containers"][0]["args"] == [
        *("8000", "-r=1", "10.1.2.3:29500", "--headless")
    ]
    # Nobody asks it for anything.
    assert "readinessProbe" not in made["spec"]["containers"][0]


_POD = PodView("replica-r", "r", want="w", model="m", phase="Running", ip="10.0.0.1", node="n1")


def _seen(*pods: PodView) -> tuple[Phase, str, bool]:
    seen = seen_replica(pods, 8000)
    return seen.phase, seen.detail, seen.is_reachable


def test_a_pod_tells_of_its_replica() -> None:
    seen = seen_replica([_POD], 8000)
    assert (seen.url, seen.host, seen.phase) == ("http://10.0.0.1:8000", "n1", Phase.ALIVE)
    v6 = msgspec.structs.replace(_POD, ip="fd00::1")
    assert seen_replica([v6], 8000).url == "http://[fd00::1]:8000"
    pending = msgspec.structs.replace(_POD, phase="Pending", ip="", reason="0/2 nodes")
    assert _seen(pending) == (Phase.ALIVE, "0/2 nodes", False)
    assert not seen_replica([pending], 8000).is_waiting
    unplaced = msgspec.structs.replace(pending, node="")
    assert seen_replica([unplaced], 8000).is_waiting
    # A lost node's pod stays Running for ever: only that it was deleted says something.
    ending = msgspec.structs.replace(_POD, is_ending=True)
    assert _seen(ending)[0] is Phase.ENDING
    killed = msgspec.structs.replace(_POD, phase="Failed", reason="OOMKilled, exit code 137")
    assert _seen(killed) == (Phase.ENDED, "OOMKilled, exit code 137", False)


def test_a_replica_over_several_pods_ends_with_any_of_them() -> None:
    others = '[{"metadata": {"name": "replica-r-1"}}]'
    first = msgspec.structs.replace(_POD, others=others)
    part = msgspec.structs.replace(_POD, name="replica-r-1", rank=1)
    assert _seen(part, first)[0] is Phase.ALIVE
    assert _seen(msgspec.structs.replace(part, phase="Failed"), first)[0] is Phase.ENDED
    assert _seen(part)[0] is Phase.ENDED
    # It waits for the other one as long as it never answered.
    assert _seen(first)[0] is Phase.ALIVE
    assert _seen(msgspec.structs.replace(first, is_ready=True))[0] is Phase.ENDED


class _RefusingCluster:
    """A quota admits the first pod of a replica, and no other."""

    def pods(self) -> tuple[PodView, ...]:
        others = '[{"metadata": {"name": "replica-r-1"}}]'
        return (
            msgspec.structs.replace(_POD, others=others),
            msgspec.structs.replace(_POD, name="replica-s", replica="s"),
        )

    async def create(self, manifest: object) -> None:
        raise ReplicaUnreachable("The cluster answers: exceeded quota")


async def test_a_replica_that_the_cluster_refuses_does_not_hide_the_others() -> None:
    provider = KubernetesProvider(_RefusingCluster(), None, _OPTIONS)  # type: ignore[arg-type]
    first, second = await provider.observe()
    assert (first.detail, first.is_reachable) == ("The cluster answers: exceeded quota", False)
    assert (second.detail, second.is_reachable) == ("", True)
