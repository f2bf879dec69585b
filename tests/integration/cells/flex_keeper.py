"""A keeper that pulls flex work, in the test's own loop or as a process, and jobs for it to run."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.integration.cells.cell_key import key_file, sealed_objects
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT
from tests.integration.cells.runtime_dsn import runtime_dsn
from tests.integration.cells.signals_worker import eventually

from penstock.app import keeper_parts
from penstock.app.station import Station
from penstock.clock import SystemClock, new_id
from penstock.config import Config
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.jobs.submission import DeskRooms, JobDesk
from penstock.metering import MeteringSettings
from penstock.policy import AccountBook, KeyBook, cell_mark, read_cell_secret, signal_key
from penstock.puller.settings import PullerSettings
from penstock.queue import Batches, FlexControl, Queue, QueueSettings
from penstock.records.account import AccountId, KeyId, Role
from penstock.records.job import Door, Job, JobId, JobState, NewJob, Submission, Ticket
from penstock.records.model import ModelId
from penstock.records.price import Price
from penstock.records.signal import LoadClaim, PeerState, SentPrompt, Signal
from penstock.serving.settings import ServingSettings
from penstock.signals import CellKey, GossipLoops, SignalsSettings, worker_identity
from penstock.store import Store, StoreSettings
from penstock.store.kept_values import KeptValues
from penstock.testing import ScriptedEngine

MODEL = ModelId("@cf/test/flex")
PRICE = Price(600_000_000, 600_000_000, 3_000_000_000, 5_000)
_ENTRY = f"""
id = "{MODEL}"
family = "openai"
context_tokens = 100_000
capabilities = ["async_queue"]
[prices]
input_nanousd_per_mtok = 600_000_000
output_nanousd_per_mtok = 3_000_000_000
[recipe]
served_name = "scripted"
command = ["engine", "--port", "{{port}}"]
"""
_QUICK = PullerSettings(
    lease_seconds=3.0, control_seconds=0.2, drain_seconds=5.0, restart_seconds=0.5
)


class Claimed(msgspec.Struct, frozen=True):
    loads: list[LoadClaim]
    sent: list[SentPrompt]


class LiveLoad:
    """A gateway worker that says what it has at a replica; a test sets `loads`."""

    def __init__(self) -> None:
        self.loads: list[LoadClaim] = []
        self.heard: dict[int, Signal] = {}

    def tell(self, now: float) -> Claimed:
        del now
        return Claimed(self.loads, [])

    def hear(self, signal: Signal, sent: Sequence[SentPrompt], now: float) -> None:
        del sent, now
        self.heard[signal.sender] = signal

    def forget_peer(self, sender: int) -> None:
        self.heard.pop(sender, None)

    def note_peers(self, state: PeerState) -> None: ...


class FlexCell:
    """A database with one account, a folder, and what is needed to submit jobs and look at them."""

    def __init__(self, store: Store, dsn: str, folder: Path, signals: Path) -> None:
        self.store = store
        self.dsn = dsn
        self.folder = folder
        self.signals = signals
        self.store_settings = StoreSettings(
            dsn=dsn,
            objects_url=f"file:{folder / 'objects'}",
            cell_key_file=key_file(folder),
        )
        self.objects = sealed_objects(store, self.store_settings)
        self.queue_settings = QueueSettings()
        self.slots = 8
        self.account = AccountId("")
        self.key = KeyId("")
        write_catalogue(folder / "catalogue")

    async def set_up(self) -> None:
        await self.objects.open()
        account = await AccountBook(self.store).create("flex")
        key, _ = await KeyBook(self.store).create(Role.RUNTIME, account.id, "flex")
        self.account, self.key = account.id, key.id

    @property
    def queue(self) -> Queue:
        return Queue(self.queue_settings)

    def config(
        self, engines: Sequence[ScriptedEngine], name: str = "keeper", **puller: Any
    ) -> Config:
        wants = tuple(
            WantedReplicas(
                MODEL, provider="attach", url=engine.url, slots_live=self.slots, has_priority=True
            )
            for engine in engines
        )
        config = Config(
            store=self.store_settings,
            queue=self.queue_settings,
            signals=SignalsSettings(folder=str(self.signals), interval_seconds=0.05),
            metering=MeteringSettings(
                journal_folder=str(self.folder / "journal"), drain_seconds=0.1
            ),
            puller=msgspec.structs.replace(_QUICK, **puller),
            fleet=FleetSettings(
                replicas=wants,
                state_folder=str(self.folder / name),
                heartbeat_seconds=0.1,
                load_seconds=0.1,
                metrics_port=0,
            ),
        )
        catalogue = msgspec.structs.replace(config.catalogue, folder=str(self.folder / "catalogue"))
        return msgspec.structs.replace(config, catalogue=catalogue)

    async def submit(
        self, count: int, script: dict[str, Any] | None = None, contract: str = ""
    ) -> list[JobId]:
        """Jobs that tell the engine how to behave. `contract` is the label that they keep."""
        said = f"\n@script {msgspec.json.encode(script).decode()}" if script else ""
        jobs = [_new_job(f"job {number}{said}", contract) for number in range(count)]
        submission = Submission(
            self.account, self.key, MODEL, Door.CHAT, deadline=SystemClock().now() + 3600
        )
        values = KeptValues(self.objects, ServingSettings())
        rooms = DeskRooms(self.store, self.queue, Batches(), values)
        submitted = await JobDesk(rooms, Config().admission, SystemClock()).submit(submission, jobs)
        return list(submitted.ids)

    async def job(self, job: JobId) -> Job:
        async with self.store.transaction() as transaction:
            found = await self.queue.find(transaction, None, job)
        assert found is not None
        return found

    async def result_of(self, job: Job) -> bytes:
        values = KeptValues(self.objects, ServingSettings())
        return await values.get(job.account, job.id, job.result_object, job.result)

    async def count(self, state: JobState) -> int:
        return await self.number("select count(*) from jobs where state = %s", state.value)

    async def number(self, sql: Any, *params: object) -> int:
        async with self.store.transaction() as transaction:
            row = await transaction.fetch_one(sql, params)
        return 0 if row is None or row[0] is None else int(row[0])

    async def control(self, control: FlexControl) -> None:
        async with self.store.transaction() as transaction:
            await self.queue.set_control(transaction, MODEL, control)

    async def wait_for(self, state: JobState, count: int, seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while await self.count(state) < count:  # noqa: ASYNC110 - the rows change in Postgres
                await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def keeper(self, config: Config) -> AsyncIterator[Station]:
        """As `penstock keeper` runs it, ended in order."""
        clock = SystemClock()
        kept = keeper_parts.keeper(config, self.store, clock)
        station = keeper_parts.station(config, self.store, self.objects, kept, clock)
        announce = keeper_parts.announcing(config, self.store, clock, station)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(kept.run(announce=announce))
            pulling = group.create_task(station.run())
            await eventually(lambda: bool(kept.ready() and station.puller))
            yield station
            station.stop()
            await pulling
            kept.stop()
            await keeping
        assert kept.failures == 0
        assert station.counts.failures == 0

    @contextlib.asynccontextmanager
    async def gateway(self, config: Config) -> AsyncIterator[LiveLoad]:
        """The signals of a gateway worker, which has what the test says."""
        live = LiveLoad()
        async with self.store.transaction() as transaction:
            secret = await read_cell_secret(transaction)
        cell = CellKey(cell_mark(secret), signal_key(secret))
        exchange = GossipLoops(worker_identity(None), cell, config.signals, SystemClock(), live)
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(exchange.run())
            yield live
            speaking.cancel()


class KeeperProcess:
    """`penstock keeper` as an operator runs it."""

    def __init__(self, config: Config, folder: Path) -> None:
        (folder / "keepers").mkdir(exist_ok=True)
        self._log = folder / "keepers" / f"{new_id()}.log"
        settings: dict[str, object] = {
            "STORE_DSN": runtime_dsn(config.store.dsn),
            "STORE_OBJECTS_URL": config.store.objects_url,
            "STORE_CELL_KEY_FILE": config.store.cell_key_file,
            "CATALOGUE_FOLDER": config.catalogue.folder,
            "SIGNALS_FOLDER": config.signals.folder,
            "METERING_JOURNAL_FOLDER": config.metering.journal_folder,
            "METERING_DRAIN_SECONDS": 0.1,
            "METERING_ADOPT_SECONDS": 0.5,
            "FLEET_STATE_FOLDER": config.fleet.state_folder,
            "FLEET_LOAD_SECONDS": config.fleet.load_seconds,
            "FLEET_HEARTBEAT_SECONDS": config.fleet.heartbeat_seconds,
            "FLEET_METRICS_PORT": config.fleet.metrics_port,
            "PULLER_LEASE_SECONDS": config.puller.lease_seconds,
            "PULLER_CONTROL_SECONDS": config.puller.control_seconds,
            "PULLER_SLOTS_FREE_SHARE": config.puller.slots_free_share,
        }
        wanted = [
            f'{{model = "{each.model}", provider = "attach", url = "{each.url}",'
            f" slots_live = {each.slots_live}, has_priority = true}}"
            for each in config.fleet.replicas
        ]
        settings["FLEET_REPLICAS"] = f"[{', '.join(wanted)}]"
        environment = {f"PENSTOCK_{name}": str(value) for name, value in settings.items()}
        command = [sys.executable, "-m", "penstock", "keeper", "--json"]
        command += ["--parent-pid", str(os.getpid())]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**CHILD_ENVIRONMENT, **environment},
            )

    def log_text(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def terminate(self) -> int:
        self._process.terminate()
        return self._process.wait(30)

    def end(self) -> None:
        if self._process.poll() is None:
            self.kill()


def write_catalogue(folder: Path) -> None:
    """The entry of the model that jobs are for."""
    folder.mkdir(exist_ok=True)
    (folder / "flex.toml").write_text(_ENTRY)


def live_claim(replica: str, in_flight: int, outstanding: int = 0) -> LoadClaim:
    return LoadClaim(replica, outstanding, outstanding, 0.0, 0.0, in_flight, in_flight, 100)


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """Not tmp_path: its paths may be too long for a Unix socket."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _new_job(text: str, contract: str) -> NewJob:
    body = {"messages": [{"role": "user", "content": text}]}
    ticket = Ticket(
        price=PRICE.terms, prompt_tokens_estimate=50, output_tokens_max=50, contract=contract
    )
    return NewJob(JobId(new_id()), msgspec.json.encode(body), ticket)
