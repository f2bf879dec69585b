"""A cell of eight hosts with eight GPUs: keepers, engines, control and a gateway, as processes.

Every host has a folder, a name and ports of its own. Its engines hold the GPUs that they see, and
leave a mark if another engine of the host has one of them.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.chaos.flex_process import PenstockProcess
from tests.chaos.started import Started
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.gateway_process import GatewayProcess, Settings
from tests.integration.cells.runtime_key import add_runtime_key

from penstock.fleet.processes import is_running, signal_group, signal_process
from penstock.fleet.replica_files import ReplicaFile, StateFolder
from penstock.store import migrate
from penstock.store.embedded import EmbeddedPostgres

HOSTS = 8
GPUS = 8
# GPUs of one replica, by model.
MODELS = {"@cf/test/one": 1, "@cf/test/two": 2, "@cf/test/four": 4}
# A host that is silent for longer is given up.
LOST_SECONDS = 22.0
_PORTS_FIRST = 26000
_PORTS_EACH = 100
_SETTINGS: dict[str, object] = {
    "control.port": 0,
    "fleet.obeys": "deployments",
    "fleet.gpus": GPUS,
    "fleet.heartbeat_seconds": 0.5,
    "fleet.health_interval_seconds": 1.0,
    "fleet.load_seconds": 5.0,
    "fleet.restart_first_seconds": 0.2,
    "fleet.restart_seconds_max": 2.0,
    "fleet.orphan_seconds": LOST_SECONDS - 2,
    "fleet.reap_margin_seconds": 2.0,
    "fleet.reap_seconds": 1.0,
    "fleet.unhealthy_seconds": 15.0,
    "fleet.stop_grace_seconds": 2.0,
    "fleet.drain_seconds": 5.0,
    "fleet.drain_settle_seconds": 0.5,
    "fleet.metrics_port": 0,
    "fleet.engine_keys": False,
    "puller.enabled": False,
}


class ChaosHost:
    """One host: its keeper, and the processes of its engines."""

    def __init__(self, number: int, folder: Path, settings: Settings) -> None:
        self.name = f"gpu-{number + 1}"
        self.folder = folder
        first = _PORTS_FIRST + number * _PORTS_EACH
        own: Settings = {
            **settings,
            "fleet.host": self.name,
            "fleet.labels": {"rack": "a" if number < HOSTS // 2 else "b"},
            "fleet.engine_home": str(folder / "gpus"),
            "fleet.state_folder": str(folder / "fleet"),
            "fleet.port_first": first,
            "fleet.port_last": first + _PORTS_EACH - 1,
            "metering.journal_folder": str(folder / "journal"),
        }
        self.keeper = PenstockProcess(folder, own, "keeper")
        self.is_frozen = False

    def files(self) -> list[ReplicaFile]:
        if not (self.folder / "fleet" / "replicas").is_dir():
            return []
        with suppress(OSError):
            return [f for f in StateFolder(self.folder / "fleet").read_all() if f.exit_code is None]
        return []

    def engines(self) -> list[ReplicaFile]:
        return [f for f in self.files() if is_running(f.engine_pid, f.engine_started)]

    def kill_engine(self, index: int) -> bool:
        engines = self.engines()
        if not engines:
            return False
        file = engines[index % len(engines)]
        signal_process(file.engine_pid, file.engine_started, signal.SIGKILL)
        return True

    def freeze(self, is_frozen: bool) -> None:
        """Cut the whole host off: nothing on it moves or answers, until it is back."""
        number = signal.SIGSTOP if is_frozen else signal.SIGCONT
        pids = [self.keeper.pid] if self.keeper.pid else []
        for file in self.files():
            pids += [file.supervisor_pid, file.engine_pid]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        self.is_frozen = is_frozen

    def end(self) -> None:
        self.freeze(False)
        self.keeper.stop()
        for file in self.files():
            signal_process(file.supervisor_pid, file.supervisor_started, signal.SIGKILL)
            if is_running(file.engine_pid, file.engine_started):
                signal_group(file.engine_pid, signal.SIGKILL)

    def doubles(self) -> list[str]:
        return [path.name for path in (self.folder / "gpus").glob("double-*")]


class FleetCell(Started):
    """`with FleetCell() as cell:`; all of it ends with the block."""

    def __init__(self, *, keeps_logs: bool = False) -> None:
        super().__init__()
        self._keeps_logs = keeps_logs
        self.hosts: list[ChaosHost] = []
        self.key = ""

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-fleet-"))
        if self._keeps_logs:
            print(f"logs are in {self.folder}", flush=True)
        else:
            self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        # Postgres runs as a user of its own.
        self.folder.chmod(0o711)
        self.postgres = EmbeddedPostgres(self.folder / "postgres", fast_unsafe=True)
        self.dsn = self.postgres.start()
        self._stack.callback(self.postgres.stop)
        asyncio.run(migrate(self.dsn))
        self.key = asyncio.run(add_runtime_key(self.dsn, "chaos"))
        catalogue = self._folder("catalogue")
        for number, (model, gpus) in enumerate(MODELS.items()):
            (catalogue / f"{number}.toml").write_text(_entry(model, gpus))
        self.settings: dict[str, object] = {
            **_SETTINGS,
            "store.dsn": self.dsn,
            "catalogue.folder": str(catalogue),
            "signals.folder": str(self.folder / "signals"),
            # Hosts that are several want a bucket; nothing here is kept in it.
            "store.objects_url": "s3://nothing/here",
            "store.objects_endpoint": "http://127.0.0.1:9",
            "store.objects_access_key": "none",
            "store.objects_secret_key": "none",
            "store.cell_key_file": key_file(self.folder),
        }
        self.control = PenstockProcess(self._folder("control"), self.settings, "control")
        self._stack.callback(self.control.stop)
        self.control.start()
        for number in range(HOSTS):
            host = ChaosHost(number, self._folder(f"host-{number}"), self.settings)
            self.hosts.append(host)
            self._stack.callback(host.end)
            host.keeper.start()
        folder = self._folder("gateway")
        own = {"metering.journal_folder": str(folder / "journal")}
        self.gateway = GatewayProcess(folder, {**self.settings, **own})
        self._stack.callback(self.gateway.stop)
        self.gateway.start()

    def doubles(self) -> int:
        return sum(len(host.doubles()) for host in self.hosts)

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder


def _entry(model: str, gpus: int) -> str:
    command = [sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "m"]
    command += ["--host", "{address}", "--port", "{port}", "--gpu-folder", "{engine_home}"]
    return f"""
id = "{model}"
family = "openai"
context_tokens = 100_000
default_output_tokens = 64
[recipe]
served_name = "m"
gpus = {gpus}
start_seconds_max = 60
command = {json.dumps(command)}
"""
