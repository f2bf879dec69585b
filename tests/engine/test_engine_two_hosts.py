"""One replica of real vLLM on two hosts, which are network namespaces: served, and ended as one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.flex_process import PenstockProcess
from tests.chaos.started import Started
from tests.engine.operator_shell import run_penstock, until
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.host_namespaces import HEAD, namespaces
from tests.integration.cells.runtime_key import add_runtime_key

from penstock.catalogue.models import BUILTIN_FOLDER
from penstock.config import cpu_engine_folder
from penstock.fleet.processes import signal_group
from penstock.store import migrate
from penstock.store.embedded import EmbeddedPostgres

_START_SECONDS = 300.0
_MODEL = "@local/penstock/two-hosts"
_ADDRESSES = {HEAD: "10.78.0.1", "gpu-1": "10.78.0.11", "gpu-2": "10.78.0.12"}
_PORT = 8080
# The built-in model whose heads two parts can share, told how to run on two hosts.
_CHANGES = {
    "@local/penstock/tiny-vision": _MODEL,
    'aliases = ["tiny-vision"]': 'aliases = ["two-hosts"]',
    "hosts = 1": 'hosts = 2\npart_arguments = ["--headless"]',
    '"--enforce-eager",': """"--enforce-eager",
  "--tensor-parallel-size", "2", "--distributed-executor-backend", "mp",
  "--nnodes", "{nodes}", "--node-rank", "{node_rank}",
  "--master-addr", "{master_address}", "--master-port", "{master_port}",""",
    'VLLM_HOST_IP = "127.0.0.1"': 'VLLM_HOST_IP = "{address}"\nGLOO_SOCKET_IFNAME = "eth0"',
}
_ASK = """
import sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=5, timeout=60)
answer = client.chat.completions.create(
    model="two-hosts", messages=[{"role": "user", "content": "Say something."}], max_tokens=12,
    extra_body={"ignore_eos": True},
)
print(answer.usage.completion_tokens, answer.choices[0].finish_reason)
"""


class TwoHosts(Started):
    """Two hosts with keepers, and a third with control, a gateway and its caller."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._settings: dict[str, object] = {}
        self._names: dict[str, str] = {}
        self._key = ""

    def _start(self) -> None:
        # Postgres runs as a user of its own, and is reached by a socket file from every host.
        self._folder.chmod(0o711)
        postgres = EmbeddedPostgres(self._folder / "postgres", fast_unsafe=True)
        dsn = postgres.start()
        self._stack.callback(postgres.stop)
        asyncio.run(migrate(dsn))
        self._key = asyncio.run(add_runtime_key(dsn, "two"))
        self._names = self._stack.enter_context(namespaces(f"pe{os.getpid()}", _ADDRESSES))
        self._settings = {
            "store.dsn": dsn,
            "store.cell_key_file": key_file(self._folder),
            "store.objects_url": "s3://nothing/here",
            "store.objects_endpoint": "http://127.0.0.1:9",
            "store.objects_access_key": "none",
            "store.objects_secret_key": "none",
            "catalogue.folder": str(self._catalogue()),
            "control.port": 0,
            "ingress.port": _PORT,
            "fleet.obeys": "deployments",
            "fleet.engine_home": str(cpu_engine_folder()),
            "fleet.metrics_port": 0,
            "fleet.orphan_seconds": 60.0,
        }
        self._run(HEAD, "control")
        for host in ("gpu-1", "gpu-2"):
            self._run(host, "keeper")
        # Before the keepers stop, so that they still end their engines.
        self._stack.callback(self._remove)
        self._run(HEAD, "gateway")

    def _run(self, host: str, program: str) -> None:
        folder = self._folder / f"{host}-{program}"
        folder.mkdir()
        own = {
            **self._settings,
            "metering.journal_folder": str(folder / "journal"),
            "fleet.host": host,
            "fleet.replica_address": _ADDRESSES[host],
            "fleet.state_folder": str(self._folder / host),
        }
        process = PenstockProcess(folder, own, program)
        process.prefix = self._inside(host)
        self._stack.callback(process.stop)
        process.start()

    def _inside(self, host: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self._names[host])

    def _catalogue(self) -> Path:
        text = (BUILTIN_FOLDER / "tiny-vision.toml").read_text()
        for before, after in _CHANGES.items():
            assert before in text
            text = text.replace(before, after)
        made = self._folder / "catalogue"
        made.mkdir()
        (made / "two.toml").write_text(text)
        return made

    def run(self, *arguments: str) -> Any:
        return run_penstock(self._folder, self._settings, *arguments)

    def deploy(self) -> None:
        file = self._folder / "cell.toml"
        file.write_text('[deployment.two]\nmodel = "two-hosts"\n')
        self.run("deploy", "apply", str(file))

    def ready(self) -> int:
        [shown] = self.run("deploy", "status")
        return int(shown["ready"])

    def replicas(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.run("replicas", "list")["replicas"]
        return found

    def ask(self) -> str:
        url = f"http://127.0.0.1:{_PORT}/v1"
        command = [*self._inside(HEAD), sys.executable, "-c", _ASK, url, self._key]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def pid_of(self, replica: dict[str, Any]) -> int:
        file = self._folder / replica["host"] / "replicas" / replica["id"] / "state.json"
        return int(json.loads(file.read_text())["engine_pid"])

    def _remove(self) -> None:
        for each in self.run("deploy", "status"):
            self.run("deploy", "remove", each["name"])
        until(lambda: not self.replicas(), 120)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[TwoHosts]:
    with TwoHosts(tmp_path) as started:
        yield started


def test_a_replica_on_two_hosts_serves_and_ends_as_one(cell: TwoHosts) -> None:
    cell.deploy()
    until(lambda: cell.ready() == 1, _START_SECONDS)
    [first] = [each for each in cell.replicas() if not each["leader"]]
    [other] = [each for each in cell.replicas() if each["leader"]]
    assert other["leader"] == first["id"]
    assert {first["host"], other["host"]} == {"gpu-1", "gpu-2"}
    assert cell.ask() == "12 length"
    # vLLM's first part would answer its health checks as before: its keeper ends it.
    signal_group(cell.pid_of(other), signal.SIGKILL)
    until(lambda: first["id"] not in {each["id"] for each in cell.replicas()}, 90)
