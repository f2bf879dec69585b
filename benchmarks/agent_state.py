"""What stored state costs: a stored response, a chain of 100, and the end of a background response.

`make bench-agents`. A gateway with its hot modules compiled, a scripted engine and a Postgres of
the benchmark's own; all sides take turns. CPU times are divided by that of a calibration loop,
which takes about a millisecond on a quiet machine. The last line is JSON:

`stored_cpu_ms_added`: the worker's CPU for a request that is stored, over one that is not.
`chain_100_ratio`: reading a chain of 100 responses, over its statement alone.
`log_append_ratio`: writing the end of a background response, of which its events are made, over its
statement alone. There is no log besides that.
`sealing_share`: how much of storing a response is encrypting it.
`plain_chat_instructions_ratio`: instructions of a small chat request, over the recorded count.
Those of running tools are described in `agent_tools.py`.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.runtime_dsn import prepare_runtime_role

from agent_tools import ToolFigures, measure_tools
from penstock.clock import SystemClock, new_id
from penstock.records.account import AccountId, KeyId
from penstock.sessions import NewResponse, ResponseBook, ResponseId, ResponsesSettings
from penstock.sessions.response_book import SQL
from penstock.sessions.response_ids import day_of
from penstock.store import KeptValues, Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from process_tree import cpu_seconds
from soak_calibration import loop_microseconds

_CHAIN = 100
_TEXT = "The penstock feeds the turbine with water from the dam above it. " * 8
_STORING = {"responses.store_default": True}
_RECORDED = Path(__file__).parent / "recorded_counts.json"


class Figures(msgspec.Struct):
    """The last line."""

    stored_cpu_ms_added: float = 0.0
    chain_100_ratio: float = 0.0
    log_append_ratio: float = 0.0
    sealing_share: float = 0.0
    plain_chat_instructions_ratio: float | None = None


def calibrated(seconds: float, loop_us: float) -> float:
    """Milliseconds, as on a machine whose calibration loop takes one."""
    return seconds * 1000 / (loop_us / 1000)


def measure_stored(cell: Cell, rounds: int, requests: int) -> float:
    """The worker's CPU for a stored request over a stateless one, in calibrated milliseconds."""

    def batch(*, is_stored: bool) -> float:
        (worker,) = cell.gateway.worker_pids()
        body: dict[str, object] = {"model": CHAT, "input": _TEXT}
        if not is_stored:
            body["store"] = False
        before, loops = cpu_seconds(worker), [loop_microseconds() for _ in range(20)]
        for _ in range(requests):
            assert cell.post("/v1/responses", body).status_code == 200
        loops += [loop_microseconds() for _ in range(20)]
        taken = (cpu_seconds(worker) - before) / requests
        return calibrated(taken, statistics.median(loops))

    for is_stored in (False, True):
        batch(is_stored=is_stored)
    pairs = [(batch(is_stored=True), batch(is_stored=False)) for _ in range(rounds)]
    for stored, stateless in pairs:
        print(f"stored {stored:.2f}, stateless {stateless:.2f} calibrated ms", flush=True)
    return statistics.median(stored - stateless for stored, stateless in pairs)


def _response(id: ResponseId, account: AccountId, before: list[ResponseId]) -> NewResponse:
    item = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": _TEXT}]}
    return NewResponse(
        id=id,
        account=account,
        key=KeyId("key"),
        model=CHAT,
        response={"id": id, "status": "completed", "output": [item], "usage": None},
        input=[{"type": "message", "role": "user", "content": _TEXT}],
        root=before[0] if before else id,
        previous=before[-1] if before else None,
        depth=len(before),
    )


async def _ratio(
    ours: Callable[[], Awaitable[object]], bare: Callable[[], Awaitable[object]], rounds: int
) -> float:
    """Time of ours over theirs, in turns."""

    async def timed(act: Callable[[], Awaitable[object]]) -> float:
        began = time.perf_counter()
        await act()
        return time.perf_counter() - began

    for _ in range(5):
        await ours()
        await bare()
    ratios = []
    for number in range(rounds):
        if number % 2:
            theirs, own = await timed(bare), await timed(ours)
        else:
            own, theirs = await timed(ours), await timed(bare)
        ratios.append(own / theirs)
    return statistics.median(ratios)


async def measure_rooms(cell: Cell, rounds: int, figures: Figures) -> None:
    """Chains and ends, by the rooms and by their statements alone on one connection."""
    store = Store(StoreSettings(dsn=cell.dsn))
    await store.open()
    values = await cell.open_values(store)
    book = ResponseBook(store, values, ResponsesSettings(), SystemClock())
    account = AccountId(cell.account)
    try:
        async with await psycopg.AsyncConnection.connect(cell.dsn, autocommit=True) as bare:
            figures.chain_100_ratio = await _measure_chain(book, bare, account, rounds)
            figures.log_append_ratio = await _measure_end(store, book, bare, account, rounds)
        figures.sealing_share = await _measure_sealing(store, book, values, account, rounds)
    finally:
        await store.close()


async def _measure_chain(
    book: ResponseBook, bare: psycopg.AsyncConnection[Any], account: AccountId, rounds: int
) -> float:
    chain: list[ResponseId] = []
    for _ in range(_CHAIN):
        id = ResponseId(new_id())
        await book.add(_response(id, account, chain))
        chain.append(id)
    last = chain[-1]

    async def ours() -> None:
        assert len(await book.chain(account, last)) == _CHAIN

    async def theirs() -> None:
        values = (day_of(last), last, account, account, 2**25, 1001)
        found = await bare.execute(SQL["chain"], values)
        assert len(await found.fetchall()) == _CHAIN

    return await _ratio(ours, theirs, rounds)


async def _measure_end(
    store: Store,
    book: ResponseBook,
    bare: psycopg.AsyncConnection[Any],
    account: AccountId,
    rounds: int,
) -> float:
    """Both sides end a response of their own each time; the bare one writes what ours wrote."""
    count = 2 * (rounds + 10)
    queued = []
    for _ in range(count):
        new = _response(ResponseId(new_id()), account, [])
        open_response = {**new.response, "status": "queued"}
        await book.add(msgspec.structs.replace(new, response=open_response, is_background=True))
        queued.append(new)
    ended = {
        **queued[0].response, "completed_at": 1, "incomplete_details": None, "error": None,
    }  # fmt: skip
    kept = await book.prepare_end(account, queued[0].id, ended)

    async def ours() -> None:
        ending = await book.prepare_end(account, queued[-1].id, ended)
        queued.pop()
        async with store.transaction() as tx:
            assert await book.end(tx, ending)

    async def theirs() -> None:
        id = queued.pop().id
        values = (kept.status, kept.kept.inline, "", kept.bytes, day_of(id), id, 0, kept.bytes)
        async with bare.transaction():
            await bare.execute(SQL["end"], values)

    return await _ratio(ours, theirs, rounds)


async def _measure_sealing(
    store: Store, book: ResponseBook, values: KeptValues, account: AccountId, rounds: int
) -> float:
    """CPU of encrypting and decrypting a response, over that of storing and finding one."""
    encoded = msgspec.json.encode(_response(ResponseId(new_id()), account, []).response)
    both = [(account, "a", encoded), (account, "b", encoded)]
    began = time.process_time()
    for _ in range(rounds):
        for (_, owner, _), kept in zip(both, await values.keep(both), strict=True):
            await values.get(account, owner, kept.name, kept.inline)
    sealing = time.process_time() - began
    began = time.process_time()
    for _ in range(rounds):
        new = _response(ResponseId(new_id()), account, [])
        await book.add(new)
        await book.find(account, new.id)
    return sealing / (time.process_time() - began)


def count_instructions() -> float:
    """Instructions of a small chat request over the recorded count."""
    program = Path(__file__).parent / "instruction_count.py"
    done = subprocess.run(
        [sys.executable, str(program), "--only", "small"],
        capture_output=True,
        text=True,
        check=True,
    )
    counted = json.loads(done.stdout.splitlines()[-1])["small"]
    recorded = json.loads(_RECORDED.read_text())["plain_chat"]
    print(f"{counted} instructions for a small chat request, {recorded} recorded", flush=True)
    return float(counted / recorded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--no-count", action="store_true", help="leave valgrind out")
    parser.add_argument("--only-tools", action="store_true", help="figures of agent_tools.py")
    asked = parser.parse_args()
    figures, tools = Figures(), ToolFigures()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(tempfile.mkdtemp(prefix="penstock-bench-")))
        try:
            dsn = server.start()
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("create database bench_agents")
            template = make_conninfo(dsn, dbname="bench_agents")
            asyncio.run(migrate(template))
            asyncio.run(prepare_runtime_role(template))
            folders = iter(range(1000))

            def new_folder(name: str) -> Path:
                made = Path(folder) / f"{name}{next(folders)}"
                made.mkdir()
                return made

            cells = CellFactory(dsn, "bench_agents", new_folder)
            if not asked.only_tools:
                with cells.open(_STORING) as cell:
                    cell.set_up(CHAT)
                    figures.stored_cpu_ms_added = measure_stored(cell, asked.rounds, asked.requests)
                    asyncio.run(measure_rooms(cell, 20 * asked.rounds, figures))
            tools = measure_tools(cells, asked.rounds)
        finally:
            server.stop()
    if not asked.no_count and not asked.only_tools:
        figures.plain_chat_instructions_ratio = count_instructions()
    shown = {
        name: value if value is None else round(value, 3)
        for each in ((tools,) if asked.only_tools else (figures, tools))
        for name, value in msgspec.structs.asdict(each).items()
    }
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
