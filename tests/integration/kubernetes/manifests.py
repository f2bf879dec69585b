"""Renders the manifests of deploy/kubernetes, and checks them by an API server and by schemas."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from tests.integration.kubernetes.cluster_programs import kubectl_program

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
# What is rendered, by name.
PLACES = {
    "base": FOLDER / "base",
    "production": FOLDER / "overlays" / "production",
    "tiny": FOLDER / "overlays" / "tiny",
}
# Kinds of the Prometheus operator: neither a bare API server nor the schemas know them.
FOREIGN_KINDS = frozenset({"ServiceMonitor", "PodMonitor"})
# The API server of the tests is of 1.20, which has an older version of these.
UNKNOWN_TO_SERVER = frozenset({("policy/v1", "PodDisruptionBudget")})

Manifest = dict[str, Any]


class Refused(Exception):
    """A check has refused a manifest."""


@cache
def _rendered_text(place: str) -> str:
    command = [str(kubectl_program()), "kustomize", str(PLACES[place])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(place: str) -> list[Manifest]:
    return list(yaml.safe_load_all(_rendered_text(place)))


def name_of(manifest: Manifest) -> str:
    about = manifest["metadata"]
    return f"{manifest['kind']} {about.get('namespace', '')}/{about['name']}"


def schema_accepts(manifest: Manifest) -> bool:
    """Whether the schemas of the newest release accept it; False if they do not know its kind."""
    version = kubernetes_validate.latest_version()
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        return False
    except kubernetes_validate.ValidationError as wrong:
        where = ".".join(str(step) for step in wrong.path)
        raise Refused(f"{name_of(manifest)}: {where}: {wrong.message}") from None
    return True


class Server:
    """An API server that is asked by kubectl; it has the namespaces, and keeps nothing else."""

    def __init__(self, config_file: Path, folder: Path) -> None:
        self._folder = folder
        program = str(kubectl_program())
        self._kubectl = [program, f"--kubeconfig={config_file}", f"--cache-dir={folder}"]
        for namespace in ("penstock", "penstock-engines"):
            subprocess.run([*self._kubectl, "create", "namespace", namespace], check=True)

    def accepts(self, manifests: list[Manifest]) -> set[str]:
        """Return the names of what a dry run accepts: all of them that 1.20 can know."""
        known = [each for each in manifests if is_known_to_server(each)]
        # Unknown fields are the schemas' work: 1.20 lacks some that are right today.
        asked = self._apply(known, "--validate=false", "--output=json")
        assert asked.returncode == 0, asked.stderr
        answer = json.loads(asked.stdout)
        found = answer["items"] if answer["kind"] == "List" else [answer]
        return {name_of(each) for each in found}

    def refusal(self, manifests: list[Manifest], *options: str) -> str:
        """Return what the server has against them, empty if nothing."""
        return "" if (done := self._apply(manifests, *options)).returncode == 0 else done.stderr

    def _apply(self, manifests: list[Manifest], *options: str) -> subprocess.CompletedProcess[str]:
        file = self._folder / "manifests.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
        command = [*self._kubectl, "apply", "--dry-run=server", *options, f"--filename={file}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def is_known_to_server(manifest: Manifest) -> bool:
    kind = manifest["kind"]
    return kind not in FOREIGN_KINDS and (manifest["apiVersion"], kind) not in UNKNOWN_TO_SERVER


def pod_specs(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Return the pods' `spec` of everything that makes pods, by its name."""
    makers = [each for each in manifests if "template" in each.get("spec", {})]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in makers}


def files_of(manifests: list[Manifest], config_map: str) -> dict[str, str]:
    """Return the files of a generated ConfigMap, whose name has a hash at its end."""
    [found] = [
        each.get("data", {})
        for each in manifests
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].rpartition("-")[0] == config_map
    ]
    return dict(found)
