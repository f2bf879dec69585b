"""What a test knows of a running `penstock up`: where it is, who may ask, and its engines."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec

from penstock.clock import SystemClock
from penstock.fleet.roster import RosterMirror
from penstock.fleet.settings import FleetSettings
from penstock.records.replica import Replica
from penstock.store import Sealing, Store, StoreSettings
from penstock.store.embedded import EmbeddedPostgres

TEXT_MODEL = "@local/huggingfacetb/smollm2-135m-instruct"
VISION_MODEL = "@local/penstock/tiny-vision"
VECTORS_MODEL = "@local/huggingfacetb/smollm2-135m-embeddings"
READY_SECONDS = 420


class Cell(msgspec.Struct, frozen=True):
    """What `penstock up --json` says when it is ready."""

    base_url: str
    account: str
    key: str
    state: str

    @property
    def openai_url(self) -> str:
        return f"{self.base_url}/v1"

    @property
    def workers_url(self) -> str:
        return f"{self.base_url}/client/v4"

    @property
    def run_url(self) -> str:
        return f"{self.workers_url}/accounts/{self.account}/ai/run"

    def client(self) -> httpx.Client:
        return httpx.Client(headers={"authorization": f"Bearer {self.key}"}, timeout=300)

    def replicas(self) -> tuple[Replica, ...]:
        return asyncio.run(self._replicas())

    async def _replicas(self) -> tuple[Replica, ...]:
        state = Path(self.state)
        dsn = EmbeddedPostgres(state / "postgres").dsn
        settings = StoreSettings(dsn=dsn, cell_key_file=str(state / "cell.key"))
        store = Store(settings)
        await store.open()
        try:
            sealing = Sealing(store, settings)
            roster = RosterMirror(store, SystemClock(), FleetSettings(), sealing)
            await roster.load()
            return roster.all()
        finally:
            await store.close()

    def engine(self, model: str) -> Replica:
        return next(replica for replica in self.replicas() if replica.model == model)

    def ask_engine(self, model: str, path: str, body: object) -> httpx.Response:
        """Ask the engine itself, with its own key."""
        engine = self.engine(model)
        return httpx.post(engine.url + path, json=body, headers=key_header(engine), timeout=120)


def key_header(engine: Replica) -> dict[str, str]:
    return {"authorization": f"Bearer {engine.engine_key}"}


@contextlib.contextmanager
def running_up(folder: Path, *options: str) -> Iterator[Cell]:
    """`penstock up` in a folder, with what its `penstock.toml` says; ended with the block."""
    command = [sys.executable, "-m", "penstock", "up", "--json"]
    command += ["--port", "0", "--metrics-port", "0", *options]
    log = folder / "up.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        watchdog = threading.Timer(READY_SECONDS, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            watchdog.cancel()
            assert line, log.read_text()[-3000:]
            yield msgspec.convert(json.loads(line), Cell)
        finally:
            watchdog.cancel()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
