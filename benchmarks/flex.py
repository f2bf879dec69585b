"""Live requests go before jobs, and jobs fill an idle engine: on one real engine, in one run.

`PYTHONPATH=. python benchmarks/flex.py [--cycles 3] [--block-seconds 120] [--loads 0.4,0.7]` starts
`penstock up` with one CPU engine and measures how fast that reads prompts. Live requests then come
at 0.4 and at 0.7 of that rate; `--interval-seconds` sets a fixed pause between them instead. Each
cycle has a block of live requests alone, a block of the same stream with a deep queue of jobs
behind it, and that block's very requests once more, flooding the bare engine. It prints a table for
each load, and as its last line JSON: first-token p95 with jobs over without, and the flood's time
over ours. The engine must be installed (`deploy/cpu-engine/setup`); about 20 minutes for each load.
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
from statistics import mean

import httpx
import msgspec
from tests.engine.real_cell import TEXT_MODEL, Cell, running_up

from flex_load import (
    JOB_OUTPUT,
    Body,
    LiveAnswer,
    ask,
    client,
    flood,
    job_body,
    live_body,
    stream_live,
    tokens_of,
)
from flex_pace import Prefill, interval_seconds, prefill_rate, read_loads
from penstock.records.job import JobState
from penstock.store import Store, StoreSettings
from penstock.store.embedded import EmbeddedPostgres

_BATCH = 100
# More than an engine can do in a block, so that the queue stays deep.
_QUEUED_PER_SECOND = 6
_RESAMPLES = 4_000
_LIVE_TOKENS_MIN, _JOB_TOKENS_MAX = 1_500, 128
_POLL_SECONDS = 0.2
_END_SECONDS_MAX = 180.0
_WARM_UP_PROMPTS, _MEASURED_PROMPTS = 2, 7


class Plan(msgspec.Struct, frozen=True):
    """How long, and how much."""

    cycles: int
    block_seconds: float
    # Shares of the engine's own prefill rate; or a fixed pause between live requests.
    loads: tuple[float, ...]
    interval_seconds: float | None
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
    parser.add_argument(
        "--loads", type=read_loads, default=(0.4, 0.7), help="shares of the engine's prefill rate"
    )
    parser.add_argument(
        "--interval-seconds", type=float, help="a fixed pause between live requests instead"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return Plan(
        cycles=options.cycles,
        block_seconds=options.block_seconds,
        loads=options.loads,
        interval_seconds=options.interval_seconds,
        seed=options.seed,
    )


class Bench:
    """One running cell, and the blocks measured on it."""

    def __init__(self, plan: Plan, folder: Path, cell: Cell) -> None:
        self._plan = plan
        self._folder = folder
        self._cell = cell
        self._random = Random(plan.seed)
        self._chat = f"{cell.openai_url}/chat/completions"
        self._queued: dict[str, list[Body]] = {}
        self._store = Store(StoreSettings(dsn=EmbeddedPostgres(Path(cell.state) / "postgres").dsn))

    async def run(self) -> dict[str, list[Block]]:
        """The blocks, by the name of the pace at which live requests came."""
        replica = (await asyncio.to_thread(self._cell.engine, TEXT_MODEL)).url
        engine = f"{replica}/v1/chat/completions"
        await self._store.open()
        try:
            async with client(self._cell.key) as caller:
                self._flex("pause")
                blocks: dict[str, list[Block]] = {}
                for name, interval in (await self._paces(engine)).items():
                    print(f"{name}: a live request every {interval:.2f} s", flush=True)
                    blocks[name] = [
                        await self._cycle(caller, engine, interval, number)
                        for number in range(self._plan.cycles)
                    ]
                return blocks
        finally:
            await self._store.close()

    async def _paces(self, engine: str) -> dict[str, float]:
        """Seconds between live requests, by name: for each load, or the one that is fixed.

        The bare engine reads a few prompts by itself first, which says how fast it is.
        """
        measured = []
        async with client() as caller:
            for _ in range(_WARM_UP_PROMPTS + _MEASURED_PROMPTS):
                answer = await ask(caller, engine, TEXT_MODEL, live_body(self._random))
                uncached = answer.prompt_tokens - answer.cached_tokens
                measured.append(Prefill(uncached, answer.first_token_seconds))
        measured = measured[_WARM_UP_PROMPTS:]
        rate = prefill_rate(measured)
        print(f"the engine reads {rate:.0f} prompt tokens a second", flush=True)
        if self._plan.interval_seconds is not None:
            return {"fixed": self._plan.interval_seconds}
        tokens = mean(each.tokens for each in measured)
        return {f"{load}": interval_seconds(tokens, rate, load) for load in self._plan.loads}

    async def _cycle(
        self, caller: httpx.AsyncClient, engine: str, interval: float, number: int
    ) -> Block:
        pace = (interval, self._plan.block_seconds)
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
        # No flood finds what another one has left in the cache.
        flood_seconds = await flood(engine, TEXT_MODEL, bodies, f"flood {interval} {number}")
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
    figures: dict[str, float] = {}
    for name, measured in blocks.items():
        ratio, throughput = _report(name, measured, Random(plan.seed))
        mark = "" if name == "fixed" else f"_at_{name}"
        figures[f"ttft_p95_ratio{mark}"] = round(ratio, 3)
        figures[f"throughput_ratio{mark}"] = round(throughput, 3)
    print(msgspec.json.encode(figures).decode())


def _report(name: str, blocks: Sequence[Block], random: Random) -> tuple[float, float]:
    """Print what was measured at one pace; the two ratios of it."""
    alone = [answer.first_token_seconds for block in blocks for answer in block.alone]
    beside = [answer.first_token_seconds for block in blocks for answer in block.beside]
    everyone = [answer for block in blocks for answer in (*block.alone, *block.beside)]
    fewest = min(answer.prompt_tokens - answer.cached_tokens for answer in everyone)
    assert fewest >= _LIVE_TOKENS_MIN, f"a live prompt had only {fewest} uncached tokens"
    ratio = p95(beside) / p95(alone)
    low, high = _interval(alone, beside, random)
    throughput = sum(b.flood_seconds for b in blocks) / sum(b.beside_seconds for b in blocks)
    print(f"\n{name}: {len(alone)} live requests alone, {len(beside)} with jobs behind them")
    print(f"first token, alone:     p50 {p50(alone):.3f} s, p95 {p95(alone):.3f} s")
    print(f"first token, with jobs: p50 {p50(beside):.3f} s, p95 {p95(beside):.3f} s")
    print(f"p95 ratio {ratio:.3f} (95 % of {_RESAMPLES} resamples within {low:.3f} to {high:.3f})")
    print(f"tokens per engine-second: {_rate(blocks, 'alone'):.0f} without jobs, ", end="")
    print(f"{_rate(blocks, 'beside'):.0f} with, {_rate(blocks, 'flood'):.0f} flooded")
    return ratio, throughput


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
