"""What is wanted now goes first, and idle engines are filled: on one real engine, in one run.

`PYTHONPATH=. python benchmarks/flex.py [--cycles 3] [--block-seconds 120]` starts `penstock up`
with one CPU engine. Each cycle has a block of live requests alone, a block of the same stream with
a deep queue of jobs behind it, and that block's very requests once more, flooding the bare engine.
It prints a table and as its last line JSON: first-token p95 with jobs over without, and the flood's
time over ours. The engine must be installed (`deploy/cpu-engine/setup`); about 20 minutes.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import httpx
import msgspec
from tests.engine.real_cell import TEXT_MODEL, Cell, running_up

from flex_load import (
    JOB_OUTPUT,
    Body,
    LiveAnswer,
    client,
    flood,
    job_body,
    stream_live,
    tokens_of,
)
from penstock.records.job import JobState
from penstock.store import Settings, Store
from penstock.store.embedded import EmbeddedPostgres

_BATCH = 100
# More than an engine can do in a block, so that the queue stays deep.
_QUEUED_PER_SECOND = 6
_RESAMPLES = 4_000
_LIVE_TOKENS_MIN, _JOB_TOKENS_MAX = 1_500, 128
_POLL_SECONDS = 0.2
_END_SECONDS_MAX = 180.0


class Plan(msgspec.Struct, frozen=True):
    """How long, and how much."""

    cycles: int
    block_seconds: float
    interval_seconds: float
    seed: int


class Block(msgspec.Struct):
    """What one cycle measured. Seconds are from the first request to the last answer."""

    alone: list[LiveAnswer]
    beside: list[LiveAnswer]
    jobs: list[Body]
    job_tokens: int
    alone_seconds: float
    beside_seconds: float
    flood_seconds: float


def read_plan() -> Plan:
    parser = argparse.ArgumentParser(description="Live requests before jobs, on a real engine.")
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--block-seconds", type=float, default=120.0)
    parser.add_argument("--interval-seconds", type=float, default=3.4, help="of live requests")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return Plan(options.cycles, options.block_seconds, options.interval_seconds, options.seed)


class Bench:
    """One running cell, and the blocks measured on it."""

    def __init__(self, plan: Plan, folder: Path, cell: Cell) -> None:
        self._plan = plan
        self._folder = folder
        self._cell = cell
        self._random = Random(plan.seed)
        self._chat = f"{cell.openai_url}/chat/completions"
        self._queued: dict[str, list[Body]] = {}
        self._store = Store(Settings(dsn=EmbeddedPostgres(Path(cell.state) / "postgres").dsn))

    async def run(self) -> list[Block]:
        replica = (await asyncio.to_thread(self._cell.engine, TEXT_MODEL)).url
        engine = f"{replica}/v1/chat/completions"
        await self._store.open()
        try:
            async with client(self._cell.key) as caller:
                self._flex("pause")
                await stream_live(caller, self._chat, TEXT_MODEL, self._random, (2.0, 10.0))
                return [
                    await self._cycle(caller, engine, number) for number in range(self._plan.cycles)
                ]
        finally:
            await self._store.close()

    async def _cycle(self, caller: httpx.AsyncClient, engine: str, number: int) -> Block:
        pace = (self._plan.interval_seconds, self._plan.block_seconds)
        await self._queue_jobs(caller)
        began = time.monotonic()
        alone = await stream_live(caller, self._chat, TEXT_MODEL, self._random, pace)
        alone_seconds = time.monotonic() - began
        done_before = await self._done()
        began = time.monotonic()
        self._flex("resume")
        beside = await stream_live(caller, self._chat, TEXT_MODEL, self._random, pace)
        self._flex("pause")
        await self._wait_until_idle()
        beside_seconds = time.monotonic() - began
        done = await self._done()
        jobs = [self._queued[batch][item] for batch, item in sorted(done.keys() - done_before)]
        bodies = [answer.body for answer in beside] + jobs
        self._random.shuffle(bodies)
        flood_seconds = await flood(engine, TEXT_MODEL, bodies, f"flood {number}")
        block = Block(
            alone=alone,
            beside=beside,
            jobs=jobs,
            job_tokens=sum(done[key] for key in done.keys() - done_before),
            alone_seconds=alone_seconds,
            beside_seconds=beside_seconds,
            flood_seconds=flood_seconds,
        )
        print(f"cycle {number + 1}: {_told(block)}", flush=True)
        return block

    async def _queue_jobs(self, caller: httpx.AsyncClient) -> None:
        url = f"{self._cell.run_url}/{TEXT_MODEL}?queueRequest=true"
        wanted = int(_QUEUED_PER_SECOND * self._plan.block_seconds)
        for _ in range(-(-wanted // _BATCH)):
            bodies = [job_body(self._random) for _ in range(_BATCH)]
            answer = await caller.post(url, json={"requests": bodies})
            assert answer.status_code == 200, answer.text
            self._queued[answer.json()["result"]["request_id"]] = bodies

    async def _done(self) -> dict[tuple[str, int], int]:
        """The jobs that have succeeded, and their tokens."""
        async with self._store.transaction() as transaction:
            rows = await transaction.fetch(
                "select batch::text, item, prompt_tokens, completion_tokens from jobs"
                " where state = %s",
                (JobState.SUCCEEDED,),
            )
        for _, _, prompt, output in rows:
            assert prompt <= _JOB_TOKENS_MAX, "a job is longer than the benchmark promises"
            assert output == JOB_OUTPUT, "a job was cut short"
        return {(batch, item): prompt + output for batch, item, prompt, output in rows}

    async def _wait_until_idle(self) -> None:
        deadline = time.monotonic() + _END_SECONDS_MAX
        while time.monotonic() < deadline:
            async with self._store.transaction() as transaction:
                row = await transaction.fetch_one(
                    "select count(*) from jobs where state = %s", (JobState.RUNNING,)
                )
            assert row is not None, "a count is one row"
            if not row[0]:
                return
            await asyncio.sleep(_POLL_SECONDS)
        raise AssertionError("jobs went on after the pause")

    def _flex(self, command: str) -> None:
        """As an operator does it."""
        subprocess.run(
            [sys.executable, "-m", "penstock", "flex", command, TEXT_MODEL],
            cwd=self._folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )


def main() -> None:
    plan = read_plan()
    with (
        tempfile.TemporaryDirectory() as name,
        running_up(Path(name), "--model", "smollm2") as cell,
    ):
        blocks = asyncio.run(Bench(plan, Path(name), cell).run())
    _report(blocks, Random(plan.seed))


def _report(blocks: Sequence[Block], random: Random) -> None:
    alone = [answer.first_token_seconds for block in blocks for answer in block.alone]
    beside = [answer.first_token_seconds for block in blocks for answer in block.beside]
    everyone = [answer for block in blocks for answer in (*block.alone, *block.beside)]
    fewest = min(answer.prompt_tokens - answer.cached_tokens for answer in everyone)
    assert fewest >= _LIVE_TOKENS_MIN, f"a live prompt had only {fewest} uncached tokens"
    ratio = p95(beside) / p95(alone)
    low, high = _interval(alone, beside, random)
    throughput = sum(b.flood_seconds for b in blocks) / sum(b.beside_seconds for b in blocks)
    print(f"\nlive requests: {len(alone)} alone, {len(beside)} with jobs behind them")
    print(f"first token, alone:     p50 {p50(alone):.3f} s, p95 {p95(alone):.3f} s")
    print(f"first token, with jobs: p50 {p50(beside):.3f} s, p95 {p95(beside):.3f} s")
    print(f"p95 ratio {ratio:.3f} (95 % of {_RESAMPLES} resamples within {low:.3f} to {high:.3f})")
    print(f"tokens per engine-second: {_rate(blocks, 'alone'):.0f} without jobs, ", end="")
    print(f"{_rate(blocks, 'beside'):.0f} with, {_rate(blocks, 'flood'):.0f} flooded")
    figures = {"ttft_p95_ratio": round(ratio, 3), "throughput_ratio": round(throughput, 3)}
    print(msgspec.json.encode(figures).decode())


def _rate(blocks: Sequence[Block], arm: str) -> float:
    live = [tokens_of(block.alone if arm == "alone" else block.beside) for block in blocks]
    jobs = [0 if arm == "alone" else block.job_tokens for block in blocks]
    seconds = [getattr(block, f"{arm}_seconds") for block in blocks]
    return (sum(live) + sum(jobs)) / float(sum(seconds))


def _told(block: Block) -> str:
    alone = [answer.first_token_seconds for answer in block.alone]
    beside = [answer.first_token_seconds for answer in block.beside]
    return (
        f"first token p95 {p95(alone):.2f} s alone, {p95(beside):.2f} s with jobs; "
        f"{len(block.beside)} live and {len(block.jobs)} jobs took "
        f"{block.beside_seconds:.0f} s, flooded {block.flood_seconds:.0f} s"
    )


def _interval(
    alone: Sequence[float], beside: Sequence[float], random: Random
) -> tuple[float, float]:
    """By bootstrap: what the ratio would have been with other requests of the same kind."""
    ratios = sorted(
        p95(random.choices(beside, k=len(beside))) / p95(random.choices(alone, k=len(alone)))
        for _ in range(_RESAMPLES)
    )
    return ratios[int(0.025 * _RESAMPLES)], ratios[int(0.975 * _RESAMPLES)]


def p50(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


if __name__ == "__main__":
    main()
