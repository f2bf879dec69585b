"""A burst of live requests through a gateway, onto a replica that a keeper has filled with jobs."""

import asyncio
import json
import shutil
import time
from pathlib import Path

import httpx
from tests.integration.cells.flex_keeper import (
    MODEL,
    FlexCell,
    KeeperProcess,
    short_folder,
    write_catalogue,
)
from tests.integration.cells.gateway_cell import Cell, CellFactory

from penstock.clock import new_id
from penstock.records.job import JobState
from penstock.store import Store, StoreSettings
from penstock.testing import ScriptedEngine

_SLOTS = 16
_FREE = 4
_BURSTS = 8
_STEP_SECONDS = 0.02
_LIVE = {"stall_before_first": 0.2, "tokens": 4, "interval": _STEP_SECONDS}
_JOB = {"tokens": 40, "interval": _STEP_SECONDS}


async def test_a_burst_within_the_free_slots_starts_as_if_there_were_no_jobs(
    cells: CellFactory, tmp_path: Path
) -> None:
    with (
        short_folder() as signals,
        cells.open({"signals.folder": str(signals), "signals.interval_seconds": 0.05}) as cell,
        ScriptedEngine(slots=_SLOTS) as engine,
    ):
        write_catalogue(cell.journal.parent / "catalogue")
        await asyncio.to_thread(cell.set_up)
        # One cell, so one key.
        shutil.copy(cell.key_file, tmp_path)
        store = Store(StoreSettings(dsn=cell.dsn))
        await store.open()
        flex = FlexCell(store, cell.dsn, tmp_path, signals)
        flex.slots = _SLOTS
        await flex.set_up()
        config = flex.config([engine], slots_free_share=_FREE / _SLOTS)
        keeper = KeeperProcess(config, tmp_path)
        try:
            await _check(cell, flex, engine)
        finally:
            await asyncio.to_thread(keeper.terminate)
            keeper.end()
            await store.close()


async def _check(cell: Cell, flex: FlexCell, engine: ScriptedEngine) -> None:
    await asyncio.to_thread(cell.wait_for_replicas, MODEL, 1)
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        unloaded = [second for _ in range(3) for second in await _burst(client, cell)]
        await flex.submit(400, _JOB)
        await flex.wait_for(JobState.SUCCEEDED, 20, 30.0)
        loaded: list[float] = []
        for _ in range(_BURSTS):
            await _until_full(engine)
            loaded += await _burst(client, cell)
    usual = sorted(unloaded)[len(unloaded) // 2]
    late = [second for second in loaded if second > 1.25 * usual + _STEP_SECONDS]
    assert len(late) <= 0.05 * len(loaded), (usual, sorted(loaded)[-5:])
    assert await flex.count(JobState.FAILED) == 0


async def _until_full(engine: ScriptedEngine) -> None:
    """Of jobs, but for the free slots."""
    async with asyncio.timeout(20):
        while engine.state().running < _SLOTS - _FREE:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)


async def _burst(client: httpx.AsyncClient, cell: Cell) -> list[float]:
    return await asyncio.gather(*(_first_token(client, cell) for _ in range(_FREE)))


async def _first_token(client: httpx.AsyncClient, cell: Cell) -> float:
    text = f"hello {new_id()}\n@script {json.dumps(_LIVE)}"
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": True}
    began = time.perf_counter()
    first = 0.0
    url = cell.gateway.url + "/v1/chat/completions"
    async with client.stream("POST", url, json=body, headers=cell.authorization()) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data:") and not first:
                first = time.perf_counter() - began
    return first
