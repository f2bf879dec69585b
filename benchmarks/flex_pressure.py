"""Jobs behind a full fleet: the queue still moves, and what is wanted now keeps all but a share.

`PYTHONPATH=. python benchmarks/flex_pressure.py [--minutes 10]` keeps every slot of two scripted
engines wanted by live requests with a deep queue behind, and then sends bursts onto replicas full
of jobs. It prints a line a minute, as its last line JSON, and ends with 1 if a promise is broken.
"""

import argparse
import asyncio
import sys
import time

import httpx
import msgspec

from flex_bursts import Bursts, live_answer, measure_bursts
from flex_load import client
from flex_pressure_cell import (
    ENGINES,
    RESERVED_EACH,
    SLOTS_EACH,
    WAIT_TARGET_SECONDS,
    PressureCell,
)
from flex_pressure_jobs import JOB_SECONDS, finished, submit, wait_until_done
from penstock.store import Store, StoreSettings

_SLOTS, _RESERVED = ENGINES * SLOTS_EACH, ENGINES * RESERVED_EACH
# Half as many again as there are slots: somebody always waits.
_LIVE_CLIENTS = _SLOTS * 3 // 2
_LIVE_SCRIPT = {"tokens": 8, "interval": 0.25}
_WARM_UP_SECONDS = WAIT_TARGET_SECONDS + 10
_END_SECONDS = 180.0
# Of what the reserved slots could do, had they no pause between two jobs.
_JOBS_SHARE_MIN = 0.5
# A live request is not all the time in its slot: it comes and goes through the gateway.
_LIVE_SHARE_MIN = 0.9
_STARTED_IN_TIME_MIN = 0.95


class Pressure(msgspec.Struct):
    """What was served while every slot was wanted. Shares are of what the slots allow."""

    minutes: float
    live_seconds_unloaded: float
    live: int
    jobs: int
    live_per_second: float
    jobs_per_second: float
    live_share: float
    jobs_share: float
    jobs_in_slowest_minute: int
    oldest_seconds: float
    started_soon: float


class Live:
    """Clients that each ask again as soon as they have their answer."""

    def __init__(self, cell: PressureCell) -> None:
        self._cell = cell
        self.served = 0
        # How long a request takes that nobody is in the way of.
        self.seconds_unloaded = 0.0

    async def time_alone(self) -> None:
        async with client(self._cell.live_key) as caller:
            for _ in range(2):
                began = time.monotonic()
                answer = await live_answer(caller, self._cell, _LIVE_SCRIPT)
                self.seconds_unloaded = answer.ended_at - began

    async def run(self) -> None:
        async with client(self._cell.live_key) as caller, asyncio.TaskGroup() as group:
            for _ in range(_LIVE_CLIENTS):
                group.create_task(self._ask_on(caller))

    async def _ask_on(self, caller: httpx.AsyncClient) -> None:
        while True:
            await live_answer(caller, self._cell, _LIVE_SCRIPT)
            self.served += 1


async def _press(cell: PressureCell, store: Store, minutes: int) -> Pressure:
    live = Live(cell)
    # More than the reserved slots can do, so that the queue is never empty.
    deep = 1.1 * (_WARM_UP_SECONDS + minutes * 60) * _RESERVED / JOB_SECONDS
    await live.time_alone()
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(live.run())
        await asyncio.sleep(2 * live.seconds_unloaded)
        await submit(cell, 100 + int(deep))
        await asyncio.sleep(_WARM_UP_SECONDS)
        found = await _watch(cell, store, live, minutes)
        asking.cancel()
    return found


async def _watch(cell: PressureCell, store: Store, live: Live, minutes: int) -> Pressure:
    began = time.monotonic()
    live_before, jobs_before = live.served, await finished(store)
    live_then, jobs_then = live_before, jobs_before
    in_minutes: list[int] = []
    oldest = soon = 0.0
    for minute in range(1, minutes + 1):
        await asyncio.sleep(began + 60 * minute - time.monotonic())
        jobs = await finished(store)
        oldest = await asyncio.to_thread(cell.gateway.metric, "penstock_flex_oldest_seconds")
        soon = await asyncio.to_thread(cell.gateway.metric, "penstock_flex_started_soon_ratio")
        in_minutes.append(jobs - jobs_then)
        print(
            f"minute {minute}: {(live.served - live_then) / 60:.1f} live/s, {in_minutes[-1]} jobs"
            f" finished, oldest waits {oldest:.0f} s, {soon:.0%} started within 5 minutes",
            flush=True,
        )
        live_then, jobs_then = live.served, jobs
    seconds = time.monotonic() - began
    live_rate = (live_then - live_before) / seconds
    job_rate = (jobs_then - jobs_before) / seconds
    return Pressure(
        minutes=round(seconds / 60, 1),
        live_seconds_unloaded=round(live.seconds_unloaded, 3),
        live=live_then - live_before,
        jobs=jobs_then - jobs_before,
        live_per_second=round(live_rate, 2),
        jobs_per_second=round(job_rate, 3),
        live_share=round(live_rate * live.seconds_unloaded / (_SLOTS - _RESERVED), 3),
        jobs_share=round(job_rate * JOB_SECONDS / _RESERVED, 3),
        jobs_in_slowest_minute=min(in_minutes),
        oldest_seconds=round(oldest, 1),
        started_soon=round(soon, 3),
    )


async def _run(cell: PressureCell, minutes: int) -> tuple[Pressure | None, Bursts]:
    store = Store(StoreSettings(dsn=cell.dsn))
    await store.open()
    pressure = None
    try:
        if minutes:
            pressure = await _press(cell, store, minutes)
            print(msgspec.json.encode(pressure).decode(), flush=True)
            await wait_until_done(store, _END_SECONDS)
        return pressure, await measure_bursts(cell, store)
    finally:
        await store.close()


def _broken(pressure: Pressure | None, bursts: Bursts) -> list[str]:
    promises = {
        "a burst started late": bursts.started_in_time >= _STARTED_IN_TIME_MIN,
        "a job was not finished, or not charged once": bursts.bill.is_right,
        "no job was handed back": bursts.bill.handed_back > 0,
    }
    if pressure is not None:
        promises |= {
            "jobs got less than half of their share": pressure.jobs_share >= _JOBS_SHARE_MIN,
            "the queue stood still for a minute": pressure.jobs_in_slowest_minute > 0,
            "live requests got less than their slots": pressure.live_share >= _LIVE_SHARE_MIN,
        }
    return [broken for broken, is_kept in promises.items() if not is_kept]


def main() -> int:
    parser = argparse.ArgumentParser(description="Jobs behind a full fleet, and bursts onto jobs.")
    parser.add_argument("--minutes", type=int, default=10, help="0: only the bursts")
    minutes = parser.parse_args().minutes
    with PressureCell() as cell:
        pressure, bursts = asyncio.run(_run(cell, minutes))
    broken = _broken(pressure, bursts)
    print("\n".join(broken), flush=True)
    print(msgspec.json.encode({"pressure": pressure, "bursts": bursts, "broken": broken}).decode())
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
