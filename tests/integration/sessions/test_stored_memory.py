"""A worker's memory stays flat however many responses it stores: they are in Postgres, not here."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.stored_cell import STORING, V1, ask, count_rows

_GROWTH_MAX = 6 * 2**20
_AT_ONCE = 4


def resident_bytes(cell: Cell) -> int:
    (worker,) = cell.gateway.worker_pids()
    pages = int(Path(f"/proc/{worker}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def store_many(cell: Cell, count: int) -> None:
    """Store responses, in short chains, from some clients at a time."""

    def some(number: int) -> None:
        previous = None
        with httpx.Client(timeout=30, trust_env=False, headers=cell.authorization()) as client:
            for turn in range(count // _AT_ONCE):
                body = ask({"tokens": 20}, text=f"{number} {turn}", previous_response_id=previous)
                answer = client.post(cell.gateway.url + V1, json=body)
                assert answer.json()["store"] is True, answer.text
                previous = answer.json()["id"] if turn % 5 else None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(some, range(_AT_ONCE)))


def test_memory_is_flat_over_many_stored_responses(cells: CellFactory, full: bool) -> None:
    # Small, so that it is full before the first measurement.
    with cells.open({**STORING, "responses.cache_bytes_max": 2**19}) as cell:
        cell.set_up(CHAT)
        count = 20_000 if full else 1_200
        store_many(cell, 800)
        before = resident_bytes(cell)
        store_many(cell, count)
        assert count_rows(cell, "responses") == count + 800
        assert resident_bytes(cell) - before < _GROWTH_MAX
