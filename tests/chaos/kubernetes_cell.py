"""A whole cell as pods of a real cluster with two nodes, set up by the words of the docs' page.

Postgres and the bucket are the site's own, beside the cluster. Whoever uses the cell is in the
cluster's network namespace.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.client_run import ROOT
from tests.acceptance.deploy_image import built_image
from tests.acceptance.docs_blocks import BlockError, read_page
from tests.acceptance.docs_page import PageRun
from tests.acceptance.docs_shell import Shell
from tests.chaos.started import Started
from tests.integration.cells.network_postgres import POSTGRES_PROGRAMS, network_postgres
from tests.integration.cells.s3_server import s3_server
from tests.integration.kubernetes.cluster_programs import archive, cache_folder
from tests.nodes.image_archives import write_image
from tests.nodes.node_cluster import NodeCluster, fetch_programs, node_cluster
from tests.nodes.pod_network import BRIDGE_ADDRESS

GPUS = 4
PAGE = read_page(ROOT / "docs" / "on-kubernetes.md", ROOT)
DSN = f"postgresql://penstock:SECRET@{BRIDGE_ADDRESS}/penstock"
_STEP_SECONDS = 400.0
_NETWORKS = ("10.231.0.0/24", "10.232.0.0/16")


def prepare() -> None:
    """Bring into the cache all that the cluster's own network cannot reach."""
    packed = archive()
    if packed is None:
        sys.exit("no Kubernetes here: set PENSTOCK_KUBE_ARCHIVE to an archive of its programs")
    if os.geteuid() != 0:
        sys.exit("nodes of a cluster need root")
    fetch_programs(packed)
    image, nats = _image_files()
    built_image().save(image)
    write_image(nats, "localhost/nats:test", Path(sys.executable).with_name("nats-server"), [])


def _image_files() -> tuple[Path, Path]:
    return cache_folder() / "penstock.tar", cache_folder() / "nats.tar"


class KubernetesCell(Started):
    """Started by the page: its last deployment serves, and its reader's terminal stays open."""

    cluster: NodeCluster
    shell: Shell

    def _start(self) -> None:
        # Not below a folder that only we may enter: Postgres runs as somebody else.
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        self.folder.chmod(0o755)
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._start_site()
        packed = archive()
        assert packed is not None
        (self.folder / "cluster").mkdir()
        gpus = (GPUS, GPUS)
        started = node_cluster(self.folder / "cluster", packed, _image_files(), gpus)
        self.cluster = self._stack.enter_context(started)
        for name in ("journal-gateway-0", "journal-gateway-1"):
            # The volumes of the overlay are folders of node-1.
            (self.cluster.nodes[1].disk / name).mkdir()
        self.shell = self._terminal()
        self._stack.callback(self.shell.close)

    def follow_page(self) -> None:
        try:
            self._follow()
        except BlockError:
            self._say_why()
            raise

    def _follow(self) -> None:
        run = PageRun(PAGE, self.shell, {}, seconds=_STEP_SECONDS)
        for block in PAGE.blocks:
            print(f"{block.name} {block.way.name}", flush=True)
            run.do(block)
            if "chat/completions" in block.text:
                answer = json.loads(run.printed)
                assert answer["choices"][0]["message"]["content"]

    @property
    def key(self) -> str:
        """The runtime key that the page has made."""
        return self.typed('printf %s "$KEY"')

    def typed(self, text: str) -> str:
        """What the reader's terminal prints."""
        done = self.shell.run(text, _STEP_SECONDS)
        assert done.status == 0, done
        return done.out

    def kubectl(self, *words: str) -> str:
        """What a second terminal prints: the first may be busy."""
        command = ["kubectl", "--kubeconfig", str(self.cluster.plane.config_file), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        listed = json.loads(self.kubectl("--namespace", namespace, "get", "pods", "-o", "json"))
        items: list[dict[str, Any]] = listed["items"]
        return items

    def _say_why(self) -> None:
        """Print what somebody would look at whose command has failed."""
        print(self.kubectl("get", "pods", "--all-namespaces", "--output", "wide"), flush=True)
        for part in ("deployment/keeper", "deployment/control", "statefulset/gateway"):
            print(self.kubectl("-n", "penstock", "logs", "--tail=5", part), flush=True)

    def _start_site(self) -> None:
        database = network_postgres(self.folder / "postgres", BRIDGE_ADDRESS, _NETWORKS)
        self._stack.enter_context(database)
        role = "create role penstock login password 'SECRET'"
        psql = [str(POSTGRES_PROGRAMS / "psql"), "--host", BRIDGE_ADDRESS, "-U", "postgres"]
        for statement in (role, "create database penstock owner penstock"):
            subprocess.run([*psql, "-c", statement], check=True, capture_output=True)
        (self.folder / "bucket").mkdir()
        self._stack.enter_context(s3_server(self.folder / "bucket", BRIDGE_ADDRESS, 8333))

    def _terminal(self) -> Shell:
        """Somebody with a checkout, `penstock`, and the rights of the cluster's administrator."""
        home, scripts = self.folder / "home", self.folder / "scripts"
        home.mkdir()
        scripts.mkdir()
        (home / "deploy").symlink_to(ROOT / "deploy")
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "KUBECONFIG": str(self.cluster.plane.config_file),
        }
        return Shell(home, scripts, environment)
