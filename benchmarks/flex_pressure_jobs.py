"""The jobs behind the pressure: submitted by `queueRequest`, followed and checked in Postgres."""

import asyncio
import json
import time

import msgspec
from tests.integration.cells.flex_keeper import MODEL

from flex_load import client
from flex_pressure_cell import PressureCell
from penstock.clock import new_id
from penstock.store import Store

JOB_SECONDS = 1.0
_STEPS = 10
_BATCH = 100
_LOOK_SECONDS = 0.5
_LEDGER_SECONDS = 30.0


class Bill(msgspec.Struct, frozen=True):
    """All jobs by what became of them, and by how often they were charged."""

    jobs: int
    succeeded: int
    charged_once: int
    charged_twice: int
    # By a keeper, before they began; such a claim does not count as an attempt.
    handed_back: int

    @property
    def is_right(self) -> bool:
        return self.jobs == self.succeeded == self.charged_once and not self.charged_twice


async def submit(
    cell: PressureCell, count: int, *, prompt_words: int = 0, seconds: float = JOB_SECONDS
) -> None:
    """So many jobs, each so long in its slot."""
    script = json.dumps({"tokens": _STEPS, "interval": seconds / _STEPS})
    words = " river" * prompt_words
    account, url = cell.job_account, cell.gateway.url
    path = f"{url}/client/v4/accounts/{account}/ai/run/{MODEL}?queueRequest=true"
    async with client(cell.job_key) as caller:
        for _ in range(count // _BATCH):
            texts = [f"{new_id()}{words}\n@script {script}" for _ in range(_BATCH)]
            bodies = [
                {"messages": [{"role": "user", "content": text}], "max_tokens": 2 * _STEPS}
                for text in texts
            ]
            answer = await caller.post(path, json={"requests": bodies})
            assert answer.status_code == 200, answer.text


async def finished(store: Store) -> int:
    async with store.transaction() as transaction:
        row = await transaction.fetch_one("select count(*) from jobs where state = 'succeeded'")
    assert row is not None, "a count is one row"
    return int(row[0])


async def wait_until_done(store: Store, seconds: float) -> None:
    """Until no job waits or runs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        async with store.transaction() as transaction:
            row = await transaction.fetch_one("select 1 from jobs where finished_at is null")
        if row is None:
            return
        await asyncio.sleep(_LOOK_SECONDS)
    raise AssertionError(f"jobs are left after {seconds} s")


async def bill(store: Store) -> Bill:
    """As soon as the ledger has every charge, or after a while what it has."""
    deadline = time.monotonic() + _LEDGER_SECONDS
    while True:
        async with store.transaction() as transaction:
            row = await transaction.fetch_one(_BILL)
        assert row is not None, "sums are one row"
        found = Bill(*row)
        if found.is_right or time.monotonic() > deadline:
            return found
        await asyncio.sleep(_LOOK_SECONDS)


_BILL = """
    select count(*), count(*) filter (where state = 'succeeded'),
           count(*) filter (where charges = 1 and charged = charge_nanousd),
           count(*) filter (where charges > 1), count(*) filter (where epoch > attempts)
    from jobs j, lateral (
        select count(*) filter (where u.charge_nanousd > 0) as charges,
               coalesce(sum(u.charge_nanousd), 0)::bigint as charged
        from usage_attempts u where u.request = j.id) ledger
"""
