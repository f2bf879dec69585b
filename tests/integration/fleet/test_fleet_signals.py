"""What a keeper reads from its engines reaches the gateways, and what they do with it."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import PAIR, Cell, CellFactory
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT, eventually
from tests.integration.cells.runtime_dsn import runtime_dsn
from tests.integration.cells.signals_worker import eventually as soon
from tests.unit.fleet.engine_pages import ALONE, engine_page

from penstock.app import keeper_parts
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.fleet.roster import RosterMirror
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.policy import cell_mark, read_cell_secret, signal_key
from penstock.records.model import ModelId
from penstock.routing import Router, RoutingSettings
from penstock.routing.known_replica import KnownReplica
from penstock.signals import CellKey, GossipLoops, SignalsSettings, worker_identity
from penstock.store import Store, StoreSettings

_MODEL = ModelId("@local/huggingfacetb/smollm2-135m-instruct")


@pytest.fixture
def signals() -> Iterator[Path]:
    # Not tmp_path: its paths may be too long for a Unix socket.
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    yield folder
    shutil.rmtree(folder)


class RecordedEngine:
    """Answers `/metrics` with the page that a test gives it, as a real engine wrote it."""

    def __init__(self) -> None:
        self.page = engine_page()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        body = b'{"data":[{"id":"served"}]}' if path == b"/v1/models" else b""
        body = self.page if path == b"/metrics" else body
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield


def _config(dsn: str, folder: Path, signals: Path, url: str) -> Config:
    return Config(
        store=StoreSettings(dsn=dsn),
        signals=SignalsSettings(folder=str(signals), interval_seconds=0.05),
        fleet=FleetSettings(
            replicas=(WantedReplicas(_MODEL, provider="attach", url=url),),
            state_folder=str(folder),
            heartbeat_seconds=0.1,
            roster_poll_seconds=0.1,
            load_seconds=0.1,
        ),
    )


@contextlib.asynccontextmanager
async def _listening(config: Config, store: Store) -> AsyncIterator[Router]:
    """The part of a gateway worker that learns of replicas and hears of them."""
    clock = SystemClock()
    mirror = RosterMirror(store, clock, config.fleet)
    await mirror.load()
    router = Router(mirror, RoutingSettings())
    async with store.transaction() as transaction:
        secret = await read_cell_secret(transaction)
    cell = CellKey(cell_mark(secret), signal_key(secret))
    exchange = GossipLoops(worker_identity(None), cell, config.signals, clock, router)
    async with asyncio.TaskGroup() as group:
        loops = [group.create_task(mirror.run()), group.create_task(exchange.run())]
        yield router
        for loop in loops:
            loop.cancel()


async def _only_replica(router: Router) -> KnownReplica:
    def is_known() -> bool:
        router.free(_MODEL)
        return len(list(router.knowledge.all())) == 1

    await soon(is_known)
    return next(iter(router.knowledge.all()))


async def test_a_gateway_learns_cache_size_and_rate_from_the_engines_own_metrics(
    dsn: str, tmp_path: Path, signals: Path
) -> None:
    engine = RecordedEngine()
    clock = SystemClock()
    async with engine.running():
        config = _config(dsn, tmp_path, signals, engine.url)
        store = Store(config.store)
        await store.open()
        kept = keeper_parts.keeper(config, store, clock)
        announce = keeper_parts.announcing(config, store, clock)
        async with asyncio.TaskGroup() as group, _listening(config, store) as router:
            keeping = group.create_task(kept.run(announce=announce))
            known = await _only_replica(router)
            await soon(lambda: known.kv_tokens == 46_592)
            default = known.seconds_per_token
            engine.page = ALONE
            await soon(lambda: abs(1 / known.seconds_per_token - 1025) < 1)
            kept.stop()
            await keeping
            # It said that it ends: its measure of now is worth nothing any more.
            await soon(lambda: known.seconds_per_token == pytest.approx(default))
            assert known.kv_tokens == 46_592
        assert kept.failures == 0
        await store.close()


async def test_a_keeper_that_cannot_speak_keeps_its_replicas(
    dsn: str, tmp_path: Path, signals: Path
) -> None:
    async def cannot(_keeper: str, _engines: object) -> None:
        raise OSError("no such folder")

    engine = RecordedEngine()
    async with engine.running():
        config = _config(dsn, tmp_path, signals, engine.url)
        store = Store(config.store)
        await store.open()
        kept = keeper_parts.keeper(config, store, SystemClock())
        async with asyncio.TaskGroup() as group, _listening(config, store) as router:
            keeping = group.create_task(kept.run(announce=cannot))
            assert await _only_replica(router)
            assert kept.failures == 1
            kept.stop()
            await keeping
        await store.close()


async def test_a_keeper_without_postgres_waits_to_be_heard(tmp_path: Path, signals: Path) -> None:
    settings = StoreSettings(
        dsn="host=127.0.0.1 port=1", acquire_seconds=0.1, reconnect_seconds=0.5
    )
    config = Config(store=settings, signals=SignalsSettings(folder=str(signals)))
    store = Store(settings)
    await store.open()

    def no_engines(_: float) -> Sequence[object]:
        raise AssertionError("nobody can be told yet")

    announce = keeper_parts.announcing(config, store, SystemClock())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await announce("keeper", no_engines)  # type: ignore[arg-type]
    await store.close()


@contextlib.contextmanager
def _keeper(cell: Cell, folder: Path, signals: Path, urls: list[str]) -> Iterator[None]:
    """`penstock keeper` as an operator runs it, for servers that already run."""
    wanted = [f'{{model = "{PAIR}", provider = "attach", url = "{url}"}}' for url in urls]
    settings = {
        "STORE_DSN": runtime_dsn(cell.dsn),
        "CATALOGUE_FOLDER": str(folder / "catalogue"),
        "SIGNALS_FOLDER": str(signals),
        "FLEET_STATE_FOLDER": str(folder / "fleet"),
        "FLEET_REPLICAS": f"[{', '.join(wanted)}]",
    }
    command = [sys.executable, "-m", "penstock", "keeper", "--json"]
    command += ["--parent-pid", str(os.getpid())]
    with (folder / "keeper.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**CHILD_ENVIRONMENT, **{f"PENSTOCK_{k}": v for k, v in settings.items()}},
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def test_an_engine_that_dies_idle_is_left_out_before_a_request_finds_it(
    cells: CellFactory, tmp_path: Path, signals: Path
) -> None:
    with cells.open({"signals.folder": str(signals)}) as cell:
        steady = cell.set_up()
        doomed = cell.add_engine()
        shutil.copytree(cell.journal.parent / "catalogue", tmp_path / "catalogue")
        with _keeper(cell, tmp_path, signals, [steady.url, doomed.url]):
            cell.wait_for_replicas(PAIR, 2)
            assert cell.gateway.metric("penstock_ejected_replicas") == 0
            doomed.kill()
            eventually(lambda: cell.gateway.metric("penstock_ejected_replicas") == 1, 3.0)
            assert cell.gateway.metric("penstock_ready_replicas") == 2, "the roster has it still"
            assert "replica ejected" in cell.gateway.log_text()
