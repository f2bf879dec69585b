"""Jobs a second through submit, claim and complete, by the rooms and by a bare script.

`make bench-queue`. Both sides run the same statements with the same batch sizes on the same number
of connections against one Postgres of the benchmark's own, in rounds that take turns, with 1,000
and with 1,000,000 jobs queued. The last line is JSON.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from figures import Spread, spread
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from queue_bare import Bare
from queue_load import BATCH, TICKET, WORKERS, fill, numbers
from queue_rooms import Rooms

SIZES = {"1k": 1000, "1m": 1_000_000}
# A connection's statements are planned afresh five times before their plans are kept.
WARM_UP_CYCLES = 6


class Result(msgspec.Struct, frozen=True):
    """One size: rates of both sides, and their ratio round by round."""

    rooms: Spread
    bare: Spread
    ratio: Spread


async def measure(dsn: str, queued: int, rounds: int, cycles: int) -> Result:
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn, pool_size_min=WORKERS, pool_size_max=WORKERS))
    async with AsyncExitStack() as stack:
        await store.open()
        stack.push_async_callback(store.close)
        await _prepare(dsn, store, queued)
        ticket = msgspec.msgpack.encode(TICKET)
        bare = []
        for _ in range(WORKERS):
            connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
            stack.push_async_callback(connection.close)
            bare.append(Bare(connection, ticket))
        rooms = Rooms(store)
        # One sequence for both sides: they submit for the same accounts, in turns.
        turns = [numbers(worker) for worker in range(WORKERS)]

        async def by_rooms(count: int) -> float:
            return await _rate([rooms.work(count, turn) for turn in turns], count)

        async def by_script(count: int) -> float:
            works = zip(bare, turns, strict=True)
            return await _rate([one.work(count, turn) for one, turn in works], count)

        await by_rooms(WARM_UP_CYCLES)
        await by_script(WARM_UP_CYCLES)
        pairs = []
        for number in range(rounds):
            # Whoever goes first leaves the other a larger log to write: they take turns at that.
            if number % 2:
                script, ours = await by_script(cycles), await by_rooms(cycles)
            else:
                ours, script = await by_rooms(cycles), await by_script(cycles)
            pairs.append((ours, script))
    return Result(
        rooms=spread([ours for ours, _ in pairs]),
        bare=spread([script for _, script in pairs]),
        ratio=spread([ours / script for ours, script in pairs]),
    )


async def _prepare(dsn: str, store: Store, queued: int) -> None:
    began = time.monotonic()
    await fill(store, queued)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
    print(f"{queued} jobs queued in {time.monotonic() - began:.0f} s", flush=True)


async def _rate(works: Sequence[Awaitable[None]], cycles: int) -> float:
    began = time.monotonic()
    await asyncio.gather(*works)
    return WORKERS * cycles * BATCH / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cycles", type=int, default=12, help="batches of each worker a round")
    parser.add_argument("--sizes", default=",".join(SIZES))
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    server = EmbeddedPostgres(folder)
    results = {}
    try:
        dsn = server.start()
        for size in asked.sizes.split(","):
            with psycopg.connect(dsn, autocommit=True) as connection:
                name = sql.Identifier(f"bench_{size}")
                connection.execute(sql.SQL("create database {}").format(name))
            own = make_conninfo(dsn, dbname=f"bench_{size}")
            result = asyncio.run(measure(own, SIZES[size], asked.rounds, asked.cycles))
            results[size] = result
            print(f"{size}: rooms {result.rooms.shown(0)} jobs/s, bare {result.bare.shown(0)}")
            print(f"{size}: ratio {result.ratio.shown(2)}", flush=True)
    finally:
        server.stop()
        shutil.rmtree(folder)
    ratios = {
        f"rate_ratio_{size}": round(result.ratio.median, 3) for size, result in results.items()
    }
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
