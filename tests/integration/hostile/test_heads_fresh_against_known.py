"""A head is read the same on a new connection and on one that has sent nearly the same before."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.hostile.head_outcomes import Outcome, outcome_of, with_labels
from tests.integration.hostile.hostile_caller import PLAIN_BODY, V1, Caller
from tests.integration.hostile.mutated_heads import mutated, pieces_of, repeated

_HEADS, _HEADS_FULL = 1_500, 30_000
_AT_ONCE = 48
# A busy machine can be late for one of the gateway's deadlines; a difference in reading stays.
_TRIES = 3
_LOG_SECONDS = 5.0


class _Pair(msgspec.Struct):
    before: list[bytes]
    pieces: list[bytes]
    fresh: Outcome | None = None
    known: Outcome | None = None


@pytest.fixture
def cell(cells: CellFactory) -> Iterator[Cell]:
    settings = {"ingress.header_seconds": 1.5, "ingress.body_grace_seconds": 1.5}
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        cell.wait_for_replicas(CHAT, 1)
        yield cell


@pytest.mark.timeout(900)
def test_a_known_head_is_read_as_a_new_one_is(
    cell: Cell, full: bool, seeded: random.Random
) -> None:
    caller = Caller(cell.account, cell.key)
    pairs = []
    for _ in range(_HEADS_FULL if full else _HEADS):
        base = repeated(caller, seeded)
        changed = mutated(base.head, seeded)
        pairs.append(_Pair(base.before, pieces_of(changed, base.body, seeded)))
    differ = pairs
    for _ in range(_TRIES):
        asyncio.run(_send_all(cell.gateway.port, caller, differ))
        differ = _differing(cell, differ)
    statuses = Counter(_first(pair) for pair in pairs)
    print(f"{len(pairs)} heads, {len(differ)} differ; {dict(statuses)}")
    for pair in differ[:5]:
        print(f"sent {pair.pieces}\n  new: {pair.fresh}\n  known: {pair.known}")
    assert not differ
    # It is a comparison of something only if many are served and many are not.
    assert statuses[200] > len(pairs) / 5
    assert statuses.total() - statuses[200] > len(pairs) / 5


async def _send_all(port: int, caller: Caller, pairs: list[_Pair]) -> None:
    probe = caller.post("probe", V1, PLAIN_BODY).data
    left = iter(pairs)

    async def some() -> None:
        for pair in left:
            pair.fresh = await outcome_of(port, [], pair.pieces, probe)
            pair.known = await outcome_of(port, pair.before, pair.pieces, probe)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(some())


def _differing(cell: Cell, pairs: list[_Pair]) -> list[_Pair]:
    """Those whose answers, or whose lines in the log, are not the same.

    The gateway writes a request's line after its answer, so the log may lag behind for a while.
    """
    deadline = time.monotonic() + _LOG_SECONDS
    while True:
        lines = {line["request"]: line for line in cell.gateway.request_lines()}
        differ = [pair for pair in pairs if not _is_same(pair, lines)]
        if not differ or time.monotonic() > deadline:
            return differ
        time.sleep(0.1)


def _is_same(pair: _Pair, lines: dict[str, dict[str, Any]]) -> bool:
    if pair.fresh is None or pair.known is None:
        return False
    if any(told[0] == 200 and request not in lines for told, request in _answers(pair)):
        return False
    return with_labels(pair.fresh, lines) == with_labels(pair.known, lines)


def _answers(pair: _Pair) -> Iterator[tuple[Any, str]]:
    for outcome in (pair.fresh, pair.known):
        assert outcome is not None
        yield from zip(outcome.told, outcome.requests, strict=False)


def _first(pair: _Pair) -> int | str:
    """How the changed request was answered on a new connection."""
    assert pair.fresh is not None
    told = pair.fresh.told[0]
    return told if isinstance(told, str) else int(told[0])
