"""A whole cell for flex on one machine: gateways, keepers with their engines, control, accounts.

Everything is a real process that can be killed and started again. The engines are children of the
keepers' supervisors, as in production; they note every request that they get in a file.
"""

import asyncio
import collections
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
from tests.chaos.flex_process import PenstockProcess
from tests.chaos.started import Started
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.gateway_process import GatewayProcess, Settings, eventually, free_port

from penstock.admission import AdmissionSettings, LimitBook
from penstock.fleet.processes import is_running, signal_process
from penstock.fleet.replica_files import ReplicaFile, StateFolder
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Store, StoreSettings, migrate

MODEL = "@cf/test/flex"
_SERVED = "scripted"
# In nano-dollars, more than anybody here can spend: what is held of it must come back all the same.
_BUDGET = 10**12
_GATEWAYS = 2
_KEEPERS = 3
_READY_SECONDS = 60.0
_START_TRIES = 3
_PORTS_FIRST = 24000
_PORTS_EACH = 200

LEASE_SECONDS = 6.0

# Quicker than production where somebody waits for a dead process, so that kills can follow closely.
_SETTINGS: dict[str, object] = {
    "control.port": 0,
    "fleet.heartbeat_seconds": 0.5,
    "fleet.health_interval_seconds": 0.5,
    "fleet.restart_first_seconds": 0.2,
    "fleet.restart_seconds_max": 2.0,
    "fleet.orphan_seconds": 60.0,
    "fleet.stop_grace_seconds": 2.0,
    "fleet.drain_seconds": 1.0,
    "fleet.drain_settle_seconds": 0.2,
    "metering.adopt_seconds": 1.0,
    "puller.lease_seconds": LEASE_SECONDS,
    "puller.rest_seconds_max": 2.0,
    "queue.retry_seconds": 0.5,
    "queue.retry_seconds_max": 4.0,
    # Kills alone must make no job fail.
    "queue.attempts_max": 100,
    "webhooks.allowed_networks": ["127.0.0.0/8"],
    "webhooks.timeout_seconds": 3.0,
    "webhooks.lease_seconds": 6.0,
    "webhooks.retry_seconds_min": 0.5,
    "webhooks.retry_seconds_max": 4.0,
}


class Customer(msgspec.Struct, frozen=True):
    """An account with one key and a budget."""

    account: str
    key: str


class FlexCell(Started):
    """`with FlexCell(dsn, accounts=50, slots=16) as cell:`; all of it ends with the block."""

    def __init__(self, dsn: str, *, accounts: int, slots: int, keeps_logs: bool = False) -> None:
        super().__init__()
        self.dsn = dsn
        self._slots = slots
        self._keeps_logs = keeps_logs
        self._accounts = accounts
        self.customers: list[Customer] = []
        self.gateways: list[GatewayProcess] = []
        self.keepers: list[PenstockProcess] = []

    def start_gateway(self, number: int) -> None:
        """Somebody may have taken Postgres away while it starts; then it is started again."""
        for _ in range(_START_TRIES - 1):
            try:
                self.gateways[number].start()
            except RuntimeError as failure:
                print(f"gateway: once more, {str(failure)[-300:]}", flush=True)
            else:
                return
        self.gateways[number].start()

    def kill_engine(self, number: int) -> None:
        """One of a keeper's, as soon as there is one; its keeper starts another."""
        eventually(lambda: self._kill_engine(number), _READY_SECONDS)

    def times_begun(self) -> dict[str, int]:
        """How often engines were given each request."""
        begun: collections.Counter[str] = collections.Counter()
        for line in self._requests_file.read_text().splitlines():
            event, _, request = line.partition(" ")
            if event == "begun":
                begun[request.removeprefix("chatcmpl-")] += 1
        return begun

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-flex-"))
        if self._keeps_logs:
            print(f"logs are in {self.folder}", flush=True)
        else:
            self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._requests_file = self.folder / "requests.txt"
        self._requests_file.touch()
        catalogue = self.folder / "catalogue"
        catalogue.mkdir()
        (catalogue / "flex.toml").write_text(_entry(self._requests_file, self._slots))
        self._shared: dict[str, object] = {
            **_SETTINGS,
            "store.dsn": self.dsn,
            "catalogue.folder": str(catalogue),
            "signals.folder": str(self.folder / "signals"),
            "store.objects_url": f"file:{self.folder / 'objects'}",
            "store.cell_key_file": key_file(self.folder),
        }
        asyncio.run(migrate(self.dsn))
        self.customers = asyncio.run(_add_accounts(self.dsn, self._accounts))
        self.control = PenstockProcess(self._folder("control"), self._shared, "control")
        self._stack.callback(self.control.stop)
        self.control.start()
        for number in range(_KEEPERS):
            self._add_keeper(number)
        for number in range(_GATEWAYS):
            self._add_gateway(number)
        ready = "penstock_ready_replicas"
        for gateway in self.gateways:
            eventually(lambda g=gateway: g.metric(ready) == _KEEPERS, _READY_SECONDS)  # type: ignore[misc]

    def _add_keeper(self, number: int) -> None:
        folder = self._folder(f"keeper-{number}")
        first = _PORTS_FIRST + number * _PORTS_EACH
        settings: Settings = {
            **self._shared,
            "fleet.replicas": [{"model": MODEL, "count": 1}],
            "fleet.state_folder": str(folder / "fleet"),
            "fleet.port_first": first,
            "fleet.port_last": first + _PORTS_EACH - 1,
            "fleet.metrics_port": free_port(),
            "metering.journal_folder": str(folder / "journal"),
        }
        keeper = PenstockProcess(folder, settings, "keeper", "--stop-replicas")
        self.keepers.append(keeper)
        # After the keeper, for what it could not end because it was just killed.
        self._stack.callback(self._end_engines, number)
        self._stack.callback(keeper.stop)
        keeper.start()

    def _add_gateway(self, number: int) -> None:
        folder = self._folder(f"gateway-{number}")
        journal = {"metering.journal_folder": str(folder / "journal")}
        gateway = GatewayProcess(folder, {**self._shared, **journal})
        self.gateways.append(gateway)
        self._stack.callback(gateway.stop)
        self.start_gateway(number)

    def _kill_engine(self, number: int) -> bool:
        for file in self._engines(number):
            if is_running(file.engine_pid, file.engine_started):
                signal_process(file.engine_pid, file.engine_started, signal.SIGKILL)
                return True
        return False

    def _engines(self, number: int) -> list[ReplicaFile]:
        folder = self.keepers[number].folder / "fleet"
        if not (folder / "replicas").is_dir():
            return []
        return [file for file in StateFolder(folder).read_all() if file.exit_code is None]

    def _end_engines(self, number: int) -> None:
        for file in self._engines(number):
            # The supervisor first: it would only report the engine's end.
            signal_process(file.supervisor_pid, file.supervisor_started, signal.SIGKILL)
            signal_process(file.engine_pid, file.engine_started, signal.SIGKILL)

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder


async def _add_accounts(dsn: str, count: int) -> list[Customer]:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    limits = LimitBook(store, AdmissionSettings())
    customers = []
    try:
        for number in range(count):
            account = await AccountBook(store).create(f"customer-{number}")
            _, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "flex")
            await limits.create(
                Limit(0, account.id, Scope.ACCOUNT, "", Measure.NANOUSD, Period.MONTH, _BUDGET)
            )
            customers.append(Customer(account.id, secret))
    finally:
        await store.close()
    return customers


def _entry(requests_file: Path, slots: int) -> str:
    command = [sys.executable, "-m", "penstock.testing.scripted_engine"]
    command += ["--port", "{port}", "--model", _SERVED, "--slots", str(slots)]
    command += ["--requests-file", str(requests_file)]
    return f"""
id = "{MODEL}"
family = "openai"
context_tokens = 100_000
capabilities = ["async_queue"]
default_output_tokens = 64
[prices]
input_nanousd_per_mtok = 600_000_000
output_nanousd_per_mtok = 3_000_000_000
[recipe]
served_name = "{_SERVED}"
slots_live = {slots}
command = {json.dumps(command)}
"""
