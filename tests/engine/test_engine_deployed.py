"""Real vLLM by `penstock deploy`: applied, rolled out under streams, and drained.

Keeper, control and gateway are processes of their own here, as on hosts.
"""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tests.chaos.flex_process import PenstockProcess
from tests.chaos.started import Started
from tests.engine.operator_shell import run_penstock, until
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.gateway_process import GatewayProcess
from tests.integration.cells.runtime_key import add_runtime_key

from penstock.config import cpu_engine_folder
from penstock.store import migrate
from penstock.store.embedded import EmbeddedPostgres

_START_SECONDS = 300.0
_DEPLOYMENT = """
[deployment.smol]
model = "smollm2"
arguments = {arguments}
"""


class DeployedEngine(Started):
    """One host with real vLLM that obeys deployments."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._settings: dict[str, object] = {}

    def _start(self) -> None:
        # Postgres runs as a user of its own.
        self._folder.chmod(0o711)
        postgres = EmbeddedPostgres(self._folder / "postgres", fast_unsafe=True)
        dsn = postgres.start()
        self._stack.callback(postgres.stop)
        asyncio.run(migrate(dsn))
        self._settings = {
            "store.dsn": dsn,
            "store.cell_key_file": key_file(self._folder),
            "control.port": 0,
            "fleet.obeys": "deployments",
            "fleet.engine_home": str(cpu_engine_folder()),
            "fleet.state_folder": str(self._folder / "fleet"),
            "fleet.port_first": 27100,
            "fleet.port_last": 27199,
            "fleet.metrics_port": 0,
            "fleet.orphan_seconds": 60.0,
        }
        for name in ("control", "keeper"):
            folder = self._folder / name
            folder.mkdir()
            own = {**self._settings, "metering.journal_folder": str(folder / "journal")}
            process = PenstockProcess(folder, own, name)
            self._stack.callback(process.stop)
            process.start()
        folder = self._folder / "gateway"
        folder.mkdir()
        own = {**self._settings, "metering.journal_folder": str(folder / "journal")}
        gateway = GatewayProcess(folder, own)
        self._stack.callback(gateway.stop)
        # Before the keeper stops, so that it still ends its engines.
        self._stack.callback(self._remove)
        gateway.start()
        key = asyncio.run(add_runtime_key(dsn, "deployed"))
        self.client = OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=120)

    def run(self, *arguments: str) -> Any:
        return run_penstock(self._folder, self._settings, *arguments)

    def apply(self, *arguments: str) -> None:
        file = self._folder / "cell.toml"
        file.write_text(_DEPLOYMENT.format(arguments=json.dumps(arguments)))
        self.run("deploy", "apply", str(file))

    def status(self) -> Any:
        [shown] = self.run("deploy", "status")
        return shown

    def replicas(self) -> dict[str, str]:
        return {each["id"]: each["state"] for each in self.run("replicas", "list")["replicas"]}

    def stream(self) -> str:
        """Ask for a long answer, and return why it ended."""
        ended = ""
        for chunk in self.client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "Count from one to two hundred."}],
            max_tokens=150,
            stream=True,
            extra_body={"ignore_eos": True},
        ):
            if chunk.choices and chunk.choices[0].finish_reason:
                ended = chunk.choices[0].finish_reason
        return ended

    def _remove(self) -> None:
        for each in self.run("deploy", "status"):
            self.run("deploy", "remove", each["name"])
        until(lambda: "ready" not in self.replicas().values(), 120)


class StreamingClient(threading.Thread):
    """Asks for one stream after the other until it is stopped."""

    def __init__(self, engine: DeployedEngine) -> None:
        super().__init__(daemon=True)
        self._engine = engine
        self._is_over = threading.Event()
        self.ends: list[str] = []

    def run(self) -> None:
        while not self._is_over.is_set():
            try:
                self.ends.append(self._engine.stream())
            except Exception as failure:  # noqa: BLE001 - every failure is what is looked for
                self.ends.append(repr(failure))

    def finish(self) -> list[str]:
        self._is_over.set()
        self.join(120)
        return self.ends


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DeployedEngine]:
    with DeployedEngine(tmp_path) as started:
        yield started


def test_a_real_engine_is_deployed_rolled_out_and_drained(engine: DeployedEngine) -> None:
    engine.apply()
    until(lambda: engine.status()["ready"] == 1, _START_SECONDS)
    [first] = engine.replicas()
    client = StreamingClient(engine)
    client.start()
    # A changed argument, while the client streams.
    engine.apply("--max-num-seqs", "8")
    until(lambda: engine.status()["stage"] != "done", 10)
    until(lambda: engine.status()["stage"] == "done", _START_SECONDS)
    [second] = [id for id, state in engine.replicas().items() if state == "ready"]
    assert second != first
    assert "--max-num-seqs" in " ".join(_command_of(engine, second)[-2:])
    # The drain of the only one, with a stream that has just begun.
    seen = len(client.ends)
    until(lambda: len(client.ends) > seen, 60)
    time.sleep(1.0)
    engine.run("replicas", "drain", second)
    ends = client.finish()
    until(lambda: second not in engine.replicas(), 60)
    assert len(ends) >= 3
    # What came after the drain, when nothing served, may be refused; nothing was cut off.
    refused = [end for end in ends if "no_replica" in end]
    assert set(ends) - set(refused) == {"length"}
    assert refused == ends[len(ends) - len(refused) :]


def _command_of(engine: DeployedEngine, replica: str) -> list[str]:
    file = engine._folder / "fleet" / "replicas" / replica / "state.json"
    pid = json.loads(file.read_text())["engine_pid"]
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
