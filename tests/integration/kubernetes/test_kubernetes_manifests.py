"""Kubernetes and Penstock accept the manifests of deploy/kubernetes; pods have no spare rights."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.integration.kubernetes.control_plane import ControlPlane
from tests.integration.kubernetes.manifests import (
    FOREIGN_KINDS,
    PLACES,
    Manifest,
    Refused,
    Server,
    files_of,
    name_of,
    pod_specs,
    rendered,
    schema_accepts,
)

from penstock.catalogue import Catalogue, load_catalogue
from penstock.clock import SystemClock
from penstock.config import Config, load
from penstock.fleet.engine_keys import EngineKeys
from penstock.fleet.intent import Want
from penstock.fleet.providers.kubernetes.pod_manifest import PodOptions, manifests
from penstock.fleet.providers.kubernetes.pool import open_pool
from penstock.records.replica import ReplicaId
from penstock.store import Store

# The one process that asks the API server for something.
_HAS_TOKEN = "keeper"
_ROOT = Path(__file__).parents[3]
_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "penstock-replicas", "uid": "u"}


@pytest.fixture(scope="module")
def server(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(cluster.config_file, tmp_path_factory.mktemp("kubectl"))


@pytest.mark.parametrize("place", PLACES)
def test_each_manifest_is_checked_and_accepted(place: str, server: Server, tmp_path: Path) -> None:
    found = [*rendered(place), _engine_pod(place, tmp_path)]
    on_server = server.accepts(found)
    unchecked = []
    for each in found:
        checks = ["schema"] if schema_accepts(each) else []
        checks += ["server"] if name_of(each) in on_server else []
        print(f"{place}: {name_of(each)}: {', '.join(checks) or 'not checked'}")
        if not checks:
            unchecked.append(each["kind"])
    assert set(unchecked) <= FOREIGN_KINDS


def test_old_server_takes_all_of_the_test_overlay(server: Server) -> None:
    """Server-side apply refuses fields that it does not know."""
    assert server.refusal(rendered("tiny"), "--server-side") == ""


def test_misspelt_field_is_refused() -> None:
    wrong = deepcopy(_by_name("base", "StatefulSet penstock/gateway"))
    security = wrong["spec"]["template"]["spec"]["containers"][0]["securityContext"]
    security["readOnlyRootFilesytem"] = security.pop("readOnlyRootFilesystem")
    with pytest.raises(Refused, match="readOnlyRootFilesytem"):
        schema_accepts(wrong)


def test_pods_that_a_workload_does_not_select_are_refused(server: Server) -> None:
    """The schemas cannot see it."""
    wrong = deepcopy(_by_name("base", "Deployment penstock/control"))
    wrong["spec"]["template"]["metadata"]["labels"] = {"another": "label"}
    assert schema_accepts(wrong)
    assert "selector" in server.refusal([wrong])


@pytest.mark.parametrize("place", PLACES)
def test_pods_have_no_spare_rights(place: str, tmp_path: Path) -> None:
    specs = pod_specs(rendered(place))
    assert set(specs) == {"gateway", "control", "keeper", "migrate", "nats"}
    specs["engine"] = _engine_pod(place, tmp_path)["spec"]
    for name, spec in specs.items():
        assert spec["automountServiceAccountToken"] is (name == _HAS_TOKEN), name
        assert spec["enableServiceLinks"] is False, name
        pod = spec["securityContext"]
        assert (pod["runAsNonRoot"], pod["runAsUser"]) == (True, 10001), name
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name


@pytest.mark.parametrize("place", PLACES)
def test_penstock_accepts_its_files(place: str, tmp_path: Path) -> None:
    config, catalogue = _settings(place, tmp_path)
    assert config.fleet.pod_namespace == "penstock-engines"
    store = Store(config.store)
    open_pool(config.fleet, store, EngineKeys(store, config.fleet), SystemClock())
    assert catalogue.models


@pytest.mark.parametrize("place", PLACES)
def test_pods_have_time_to_end(place: str, tmp_path: Path) -> None:
    config, _ = _settings(place, tmp_path)
    specs = pod_specs(rendered(place))
    gateway = specs["gateway"]
    leave = gateway["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    draining = config.ingress.drain_seconds + config.metering.last_drain_seconds
    assert gateway["terminationGracePeriodSeconds"] > int(leave[1]) + draining
    pulling = config.puller.drain_seconds + config.puller.last_write_seconds
    assert specs["keeper"]["terminationGracePeriodSeconds"] > pulling


@pytest.mark.parametrize("place", PLACES)
def test_files_and_ports_agree_with_the_settings(place: str, tmp_path: Path) -> None:
    config, _ = _settings(place, tmp_path, with_paths_of_pods=True)
    specs = pod_specs(rendered(place))
    settings = "/etc/penstock/"
    assert config.fleet.pod_template == f"{settings}pod.yaml"
    assert config.store.cell_key_file == f"{settings}cell.key"
    for name in ("gateway", "control", "keeper"):
        mounts = {each["mountPath"] for each in specs[name]["containers"][0]["volumeMounts"]}
        assert {"/etc/penstock", "/tmp", config.catalogue.folder} <= mounts
    for name in ("gateway", "keeper"):
        mounts = {each["mountPath"] for each in specs[name]["containers"][0]["volumeMounts"]}
        assert str(Path(config.metering.journal_folder).parent) in mounts
    assert _ports(specs["gateway"]) == {"http": 8787, "metrics": 8788}
    assert (config.ingress.port, config.ingress.metrics_port) == (8787, 8788)
    assert _ports(specs["control"]) == {"operators": config.control.port}
    assert _ports(specs["keeper"]) == {"metrics": config.fleet.metrics_port}
    engine = _by_name(place, "NetworkPolicy penstock-engines/engine")
    assert engine["spec"]["ingress"][0]["ports"][0]["port"] == config.fleet.pod_port


@pytest.mark.parametrize("place", PLACES)
def test_changed_settings_replace_their_readers(place: str) -> None:
    """A generated name has a hash of the content, and pods that name it are replaced with it."""
    specs = pod_specs(rendered(place))
    for name in ("gateway", "control", "keeper"):
        text = yaml.safe_dump(specs[name])
        assert "name: penstock-settings-" in text
        assert "name: penstock-models-" in text
        assert ("name: penstock-pool-" in text) is (name == "keeper")


@pytest.mark.parametrize("place", ["base", "production"])
def test_engines_of_one_model_are_spread(place: str, tmp_path: Path) -> None:
    pod = _engine_pod(place, tmp_path)
    labels = pod["metadata"]["labels"]
    [wish] = pod["spec"]["topologySpreadConstraints"]
    assert wish["labelSelector"]["matchLabels"].items() <= labels.items()
    assert wish["matchLabelKeys"] == ["penstock.dev/model"]
    assert labels["penstock.dev/model"]


@pytest.mark.parametrize("place", ["base", "production"])
def test_engines_write_only_to_volumes_that_they_may_write(place: str, tmp_path: Path) -> None:
    [engine] = _engine_pod(place, tmp_path)["spec"]["containers"]
    mounts = engine["volumeMounts"]
    writable = [each["mountPath"] for each in mounts if not each.get("readOnly")]
    values = {each["name"]: each.get("value", "") for each in engine["env"]}
    for name in ("HOME", "HF_MODULES_CACHE"):
        assert any(Path(values[name]).is_relative_to(mount) for mount in writable), name


@pytest.mark.parametrize("place", PLACES)
def test_nats_admits_keepers_beside_engines(place: str) -> None:
    """The labels of the page's example, and of the one that is run on nodes."""
    [admitted] = [
        each["podSelector"]["matchLabels"].items()
        for each in _by_name(place, "NetworkPolicy penstock/nats")["spec"]["ingress"][0]["from"]
        if each.get("namespaceSelector") == {"matchLabels": {"penstock.dev/cell": "member"}}
    ]
    page = (_ROOT / "docs" / "pools.md").read_text()
    shown = page[page.index("apiVersion: apps/v1") :].partition("```")[0]
    run = (_ROOT / "tests" / "chaos" / "beside_engine.yaml").read_text()
    for text in (shown, run):
        made = yaml.safe_load(text)
        assert admitted <= made["spec"]["template"]["metadata"]["labels"].items()
        assert schema_accepts(made)


def _ports(spec: Manifest) -> dict[str, int]:
    return {each["name"]: each["containerPort"] for each in spec["containers"][0]["ports"]}


def _by_name(place: str, name: str) -> Manifest:
    [found] = [each for each in rendered(place) if name_of(each) == name]
    return found


def _settings(
    place: str, folder: Path, *, with_paths_of_pods: bool = False
) -> tuple[Config, Catalogue]:
    """The settings and models of a place, written to a folder as the pods find them."""
    found = rendered(place)
    models = folder / "models"
    models.mkdir(exist_ok=True)
    for name, text in files_of(found, "penstock-models").items():
        (models / name).write_text(text)
    for name in ("penstock-settings", "penstock-pool"):
        [(file, text)] = files_of(found, name).items()
        (folder / file).write_text(text)
    environment = {"PENSTOCK_STORE_DSN": "postgresql://nobody@127.0.0.1/none"}
    config = load(folder / "penstock.toml", environment).config
    local = msgspec.structs.replace(config.catalogue, folder=str(models))
    catalogue = load_catalogue(local)
    if not with_paths_of_pods:
        fleet = msgspec.structs.replace(config.fleet, pod_template=str(folder / "pod.yaml"))
        config = msgspec.structs.replace(config, fleet=fleet, catalogue=local)
    return config, catalogue


def _engine_pod(place: str, folder: Path) -> dict[str, Any]:
    """A pod as the place's keeper makes it."""
    config, catalogue = _settings(place, folder)
    model = catalogue.find("tiny" if place == "tiny" else "gpt-oss-20b")
    template = yaml.safe_load(Path(config.fleet.pod_template).read_text())
    want = Want("assigned:a", "kubernetes", model.id, 1, recipe=model.recipe)
    options = PodOptions(config.fleet.pool, template)
    [pod] = manifests(ReplicaId("r0001"), want, "key", _OWNER, options)
    pod["metadata"]["namespace"] = config.fleet.pod_namespace
    return pod
