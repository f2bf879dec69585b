"""Thousands of requests of two accounts on shared connections: each caller gets its own answer.

The bytes are cut anywhere on both sides, requests are pipelined, bodies come in chunks, and the
engines send stray bytes behind their answers.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.hostile.echo_callers import Asked, asked, converse
from tests.integration.hostile.echo_engine import EchoEngine
from tests.integration.hostile.hostile_caller import Caller

_REQUESTS, _REQUESTS_FULL = 5_000, 60_000
_CONNECTIONS = 6
_ENGINES = 2


@pytest.fixture
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open() as cell:
        cell.set_up()
        yield cell


@pytest.mark.timeout(900)
def test_no_answer_reaches_another_caller_and_none_is_lost(
    cell: Cell, full: bool, seeded: random.Random
) -> None:
    count = _REQUESTS_FULL if full else _REQUESTS
    other_account, _, other_key = cell.add_account("other")
    callers = [Caller(cell.account, cell.key), Caller(other_account, other_key)]
    with ExitStack() as stack:
        engines = [
            stack.enter_context(EchoEngine(seed=seeded.getrandbits(32))) for _ in range(_ENGINES)
        ]
        for engine in engines:
            cell.enroll(engine.url, CHAT)
        cell.wait_for_replicas(CHAT, _ENGINES)
        began = time.monotonic()
        asyncio.run(_all(cell.gateway.port, count, callers, seeded))
        seconds = time.monotonic() - began
    assert [each for engine in engines for each in engine.malformed] == []
    words = Counter(word for engine in engines for word in engine.words())
    assert len(words) == count
    assert {word: times for word, times in words.items() if times > 1} == {}
    assert min(engine.strays_sent for engine in engines) > 0
    _check_salts(engines)
    print(f"{count} requests in {seconds:.1f} s")


async def _all(port: int, count: int, callers: list[Caller], seeded: random.Random) -> None:
    sources = [random.Random(seeded.getrandbits(64)) for _ in range(_CONNECTIONS)]
    requests: Iterator[Asked] = (asked(number, callers, seeded) for number in range(count))
    try:
        async with asyncio.TaskGroup() as group:
            for source in sources:
                group.create_task(converse(port, requests, source))
    except ExceptionGroup as failed:
        # One bad answer is enough to read.
        raise failed.exceptions[0] from None


def _check_salts(engines: list[EchoEngine]) -> None:
    """What the engine keys an account's cache by goes with its own requests only."""
    salts: dict[str, set[str]] = {"0": set(), "1": set()}
    for engine in engines:
        for received in engine.received:
            salts[received.word.rpartition("-")[2]].add(received.fields["cache_salt"])
    assert [len(found) for found in salts.values()] == [1, 1]
    assert salts["0"] != salts["1"]
