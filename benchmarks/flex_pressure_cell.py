"""A small cell for flex under pressure: a gateway, a control, a keeper, two scripted engines.

All are real processes beside a Postgres of their own; they end with the block. Engines take jobs
last inside, as vLLM does with `--scheduling-policy priority`.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from tests.chaos.flex_process import PenstockProcess
from tests.chaos.started import Started
from tests.integration.cells.flex_keeper import MODEL, write_catalogue
from tests.integration.cells.gateway_process import GatewayProcess, eventually

from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

ENGINES = 2
SLOTS_EACH = 16
FREE_EACH = 4
RESERVED_EACH = 1
WAIT_TARGET_SECONDS = 20.0
_READY_SECONDS = 60.0


class PressureCell(Started):
    """`with PressureCell() as cell:`; `live_key` and `job_key` are of different accounts."""

    def __init__(self) -> None:
        super().__init__()
        self.engines: list[ScriptedEngine] = []

    def running(self) -> int:
        """Requests of any kind in the slots of all engines."""
        return sum(engine.state().running for engine in self.engines)

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-pressure-"))
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        postgres = EmbeddedPostgres(self._folder / "postgres")
        self._stack.callback(postgres.stop)
        self.dsn = postgres.start()
        asyncio.run(self._add_accounts())
        write_catalogue(self._folder / "catalogue")
        for _ in range(ENGINES):
            engine = ScriptedEngine(slots=SLOTS_EACH, drain_seconds=1.0)
            self.engines.append(self._stack.enter_context(engine))
        shared: dict[str, object] = {
            "store.dsn": self.dsn,
            "store.objects_url": f"file:{self._folder / 'objects'}",
            "catalogue.folder": str(self._folder / "catalogue"),
            "signals.folder": str(self._folder / "signals"),
            "queue.flex_wait_target_seconds": WAIT_TARGET_SECONDS,
            "puller.slots_free_share": FREE_EACH / SLOTS_EACH,
            "puller.reserved_share": RESERVED_EACH / SLOTS_EACH,
            "puller.drain_seconds": 2.0,
        }
        self._start_process("control", shared)
        self._start_process("keeper", shared | self._keeper_settings())
        self._start_gateway(shared)

    def _start_process(self, name: str, settings: dict[str, object]) -> None:
        folder = self._folder / name
        folder.mkdir()
        process = PenstockProcess(folder, settings, name)
        self._stack.callback(process.stop)
        process.start()

    def _keeper_settings(self) -> dict[str, object]:
        replicas = [
            {
                "model": MODEL,
                "provider": "attach",
                "url": engine.url,
                "slots_live": SLOTS_EACH,
                "has_priority": True,
            }
            for engine in self.engines
        ]
        return {
            "fleet.replicas": replicas,
            "fleet.state_folder": str(self._folder / "fleet"),
            "fleet.metrics_port": 0,
            "metering.journal_folder": str(self._folder / "keeper-journal"),
        }

    def _start_gateway(self, shared: dict[str, object]) -> None:
        folder = self._folder / "gateway"
        folder.mkdir()
        journal = {"metering.journal_folder": str(folder / "journal")}
        self.gateway = self._stack.enter_context(GatewayProcess(folder, shared | journal))
        ready = "penstock_ready_replicas"
        eventually(lambda: self.gateway.metric(ready) == ENGINES, _READY_SECONDS)

    async def _add_accounts(self) -> None:
        await migrate(self.dsn)
        store = Store(StoreSettings(dsn=self.dsn))
        await store.open()
        try:
            live = await AccountBook(store).create("live")
            _, self.live_key = await KeyBook(store).create(Role.RUNTIME, live.id, "live")
            jobs = await AccountBook(store).create("jobs")
            _, self.job_key = await KeyBook(store).create(Role.RUNTIME, jobs.id, "jobs")
            self.job_account = jobs.id
        finally:
            await store.close()
