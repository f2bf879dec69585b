"""Jobs cancelled while they are claimed, run and completed: each ends once, charged once or not."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from tests.chaos.flex_verdict import BUDGETS, JOBS
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, new_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.limits_cell import a_limit, set_limit
from tests.integration.hostile.flex_cell import flex_cell

from penstock.clock import new_id
from penstock.records.limit import Measure

_RACES, _RACES_FULL = 300, 6_000
_AT_ONCE = 10
_SETTINGS = {
    # Jobs that are cancelled while they run end at their next renewal, every third of a lease.
    "puller.lease_seconds": 1.0,
    "puller.poll_seconds_max": 0.1,
    "puller.growth_share_per_second": 10.0,
    "metering.drain_seconds": 0.1,
    "fleet.heartbeat_seconds": 0.2,
    "fleet.load_seconds": 0.2,
}
_BUDGET_NANOUSD = 10**12
# At once, or later: when jobs wait, when they run, when they have ended.
_CANCEL_SECONDS = (0.0, 0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_POLL_SECONDS = 0.1
_TOKENS = 1, 8
_INTERVALS_SECONDS = (0.0, 0.01, 0.03, 0.06)
_END_SECONDS = 30.0
_ENDED = {"succeeded", "cancelled"}
# Of either end there must be some, or nothing raced.
_LEAST_SHARE = 0.05


class _Raced(msgspec.Struct, frozen=True):
    """A job after its race: as its cancelling was answered, and as it is in the end."""

    job: str
    states: list[str]
    last: dict[str, Any]


@pytest.fixture
def cell(cells: CellFactory) -> Iterator[Cell]:
    with flex_cell(cells, _SETTINGS) as cell:
        budget = a_limit(_BUDGET_NANOUSD, Measure.NANOUSD)
        cell.run(lambda store: set_limit(store, cell.account, budget))
        yield cell


@pytest.mark.timeout(900)
def test_a_job_that_is_cancelled_in_any_moment_ends_once(
    cell: Cell, full: bool, seeded: random.Random
) -> None:
    count = _RACES_FULL if full else _RACES
    raced = asyncio.run(_race(cell, count, seeded))
    ends = Counter(each.last["state"] for each in raced)
    print(f"{count} races: {dict(ends)}")
    assert set(ends) == _ENDED
    assert min(ends.values()) >= _LEAST_SHARE * count
    wrong = [each for each in raced if not _is_consistent(each)]
    assert wrong == []
    with psycopg.connect(cell.dsn, autocommit=True) as connection:
        _check_events(connection, raced)
        _check_charges(connection, raced)
        eventually(lambda: _budget_is_settled(connection), _END_SECONDS)


async def _race(cell: Cell, count: int, seeded: random.Random) -> list[_Raced]:
    sources = iter([random.Random(seeded.getrandbits(64)) for _ in range(count)])
    raced: list[_Raced] = []
    async with httpx.AsyncClient(
        base_url=cell.gateway.url, headers=cell.authorization(), timeout=30, trust_env=False
    ) as client:

        async def some() -> None:
            raced.extend([await _one(client, source) for source in sources])

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(some())
    return raced


async def _one(client: httpx.AsyncClient, source: random.Random) -> _Raced:
    """Submit a job, cancel it a moment later, once or twice at a time, and wait for its end."""
    script = {"tokens": source.randint(*_TOKENS), "interval": source.choice(_INTERVALS_SECONDS)}
    body = new_body(CHAT, script, max_tokens=_TOKENS[1])
    prefer = {"prefer": "respond-async", "idempotency-key": new_id()}
    submitted = await _answered(client, "POST", "/v1/chat/completions", json=body, headers=prefer)
    # One that has ended by now is answered with its result, which has the job's id, too.
    job = submitted["id"].removeprefix("chatcmpl-")
    path = f"/v1/jobs/{job}"
    await asyncio.sleep(source.choice(_CANCEL_SECONDS))
    times = source.randint(1, 2)
    told = await asyncio.gather(*(_answered(client, "DELETE", path) for _ in range(times)))
    last = await _answered(client, "GET", path)
    async with asyncio.timeout(_END_SECONDS):
        while last["state"] in ("queued", "running"):
            await asyncio.sleep(_POLL_SECONDS)
            last = await _answered(client, "GET", path)
    return _Raced(job, [each["state"] for each in told], last)


async def _answered(
    client: httpx.AsyncClient, method: str, path: str, **given: Any
) -> dict[str, Any]:
    """What a page says; a database that is too busy for it is asked again."""
    while (answer := await client.request(method, path, **given)).status_code == 503:
        assert answer.json()["error"]["code"] == "store_unavailable", answer.text
        await asyncio.sleep(_POLL_SECONDS)
    assert answer.status_code in (200, 202), answer.text
    found: dict[str, Any] = answer.json()
    return found


def _is_consistent(raced: _Raced) -> bool:
    """An end that was told stays, and there is a result exactly where the job succeeded."""
    last = raced.last
    is_success = last["state"] == "succeeded"
    stays = all(state == last["state"] for state in raced.states if state in _ENDED)
    has_result = bool(last.get("result"))
    is_refused = (last.get("error") or {}).get("code") == "job_cancelled"
    return stays and has_result is is_success and is_refused is not is_success


def _check_events(connection: psycopg.Connection, raced: list[_Raced]) -> None:
    """Nobody takes events away here: there is one for each end."""
    rows = connection.execute("select data->>'id', type from outbox").fetchall()
    assert sorted(rows) == sorted((each.job, f"job.{each.last['state']}") for each in raced)


def _check_charges(connection: psycopg.Connection, raced: list[_Raced]) -> None:
    """Who succeeded has one charge, the job's; who was cancelled has none."""
    ends = {each.job: each.last["state"] for each in raced}

    def wrong() -> list[tuple[Any, ...]]:
        rows = connection.execute(JOBS).fetchall()
        assert {job: state for job, state, *_ in rows} == ends
        return [
            (job, state, charge, charges, charged)
            for job, state, charge, charges, charged in rows
            if (charges, charge > 0) != ((1, True) if state == "succeeded" else (0, False))
            or charge != charged
        ]

    assert wrong() == []


def _budget_is_settled(connection: psycopg.Connection) -> bool:
    """What is held of the budget in the end is what was charged, and what was spent."""
    ((_, charged, held, spent),) = connection.execute(BUDGETS).fetchall()
    return bool(charged == held == spent)
