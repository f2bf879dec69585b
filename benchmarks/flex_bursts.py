"""Bursts of live requests onto replicas that are full of jobs: do they start as if there were none?

A burst within the free slots is timed against the same burst without jobs. A burst of as many as
there are slots takes the room of jobs that cannot have begun; those are handed back.
"""

import asyncio
import json
import time
from statistics import median

import httpx
import msgspec
from tests.integration.cells.flex_keeper import MODEL

from flex_load import LiveAnswer, ask, client
from flex_pressure_cell import ENGINES, FREE_EACH, SLOTS_EACH, PressureCell
from flex_pressure_jobs import Bill, bill, submit, wait_until_done
from penstock.clock import new_id
from penstock.store import Store

_STEP_SECONDS = 0.05
_SCRIPT = {"stall_before_first": 0.2, "tokens": 6, "interval": _STEP_SECONDS}
_SMALL, _LARGE = ENGINES * FREE_EACH, ENGINES * SLOTS_EACH
_SMALL_BURSTS, _LARGE_BURSTS, _UNLOADED_BURSTS = 15, 6, 4
# So that jobs are a while in reading, when they can be handed back, and still fill their slots.
_JOB_WORDS, _JOB_SECONDS = 500, 2.0
_JOBS = 1_200
# Of the slots that jobs may have: some of them end at any moment.
_FULL_SHARE = 0.9
_FULL_SECONDS = 20.0
_END_SECONDS = 180.0


class Bursts(msgspec.Struct, frozen=True):
    """Times in seconds."""

    unloaded_first_token: float
    requests: int
    started_in_time: float
    first_token_max: float
    large_requests: int
    large_first_token_max: float
    bill: Bill


async def measure_bursts(cell: PressureCell, store: Store) -> Bursts:
    """On an idle cell; it is idle again afterwards."""
    async with client(cell.live_key) as caller:
        await _burst(caller, cell, _SMALL)
        alone = [t for _ in range(_UNLOADED_BURSTS) for t in await _burst(caller, cell, _SMALL)]
        await submit(cell, _JOBS, prompt_words=_JOB_WORDS, seconds=_JOB_SECONDS)
        small = [t for _ in range(_SMALL_BURSTS) for t in await _burst_when_full(caller, cell)]
        large = []
        for _ in range(_LARGE_BURSTS):
            large += await _burst_when_full(caller, cell, _LARGE)
    await wait_until_done(store, _END_SECONDS)
    usual = median(alone)
    in_time = [t for t in small if t <= 1.25 * usual + _STEP_SECONDS]
    return Bursts(
        unloaded_first_token=round(usual, 4),
        requests=len(small),
        started_in_time=round(len(in_time) / len(small), 4),
        first_token_max=round(max(small), 4),
        large_requests=len(large),
        large_first_token_max=round(max(large), 4),
        bill=await bill(store),
    )


async def _burst_when_full(
    caller: httpx.AsyncClient, cell: PressureCell, count: int = _SMALL
) -> list[float]:
    """When jobs have nearly all the slots but the free ones."""
    full = _FULL_SHARE * ENGINES * (SLOTS_EACH - FREE_EACH)
    deadline = time.monotonic() + _FULL_SECONDS
    while await asyncio.to_thread(cell.running) < full:
        assert time.monotonic() < deadline, "the replicas were not filled with jobs"
        await asyncio.sleep(_STEP_SECONDS)
    return await _burst(caller, cell, count)


async def _burst(caller: httpx.AsyncClient, cell: PressureCell, count: int) -> list[float]:
    asked = (live_answer(caller, cell, _SCRIPT) for _ in range(count))
    return [answer.first_token_seconds for answer in await asyncio.gather(*asked)]


async def live_answer(
    caller: httpx.AsyncClient, cell: PressureCell, script: dict[str, float]
) -> LiveAnswer:
    """One streamed live request that tells the engine how long to take."""
    text = f"{new_id()}\n@script {json.dumps(script)}"
    body: dict[str, object] = {
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return await ask(caller, f"{cell.gateway.url}/v1/chat/completions", MODEL, body)
