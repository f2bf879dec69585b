"""The queue's benchmark without the rooms: the same statements, written out in one script.

No pool, no records, no retries of anything: what is left is Postgres and psycopg.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, LiteralString

import psycopg

from penstock.clock import new_id
from penstock.metering.queries import QUERIES as LEDGER
from penstock.queue.queries import read_queries
from penstock.records.limit import FLEX_HOLDER
from queue_load import (
    BATCH,
    CHARGE,
    LEASE_SECONDS,
    MODEL,
    PAYLOAD,
    RESULT,
    USAGE,
    account,
    ledger_line,
)

SUBMIT = read_queries("submitting.sql")
CLAIM = read_queries("claiming.sql")
END = read_queries("ending.sql")
AFTER_JOB_END = read_queries("after_job_end.sql")
TOKENS = 250
DEADLINE = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
OUTBOX = """
    insert into outbox (id, account, type, data)
    select id, account, type, data
    from unnest(%s::uuid[], %s::text[], %s::text[], %s::jsonb[]) as e (id, account, type, data)
"""

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


class Bare:
    """One connection, which is one worker's."""

    def __init__(self, connection: Connection, ticket: bytes) -> None:
        self._connection = connection
        self._ticket = ticket

    async def work(self, cycles: int, numbers: Iterator[int]) -> None:
        for _ in range(cycles):
            async with self._connection.transaction():
                await self._submit(account(next(numbers)))
            async with self._connection.transaction():
                claimed = await self._claim()
            async with self._connection.transaction():
                await self._finish(claimed)
                await self._charge(claimed)

    async def _fetch(self, statement: LiteralString, values: tuple[object, ...] = ()) -> list[Any]:
        cursor = await self._connection.execute(statement, values)
        return await cursor.fetchall()

    async def _submit(self, account: str) -> None:
        await self._connection.execute(SUBMIT["lock_account"], (account,))
        ((start, _),) = await self._fetch(SUBMIT["place"], (MODEL, 0, account, 1))
        shared = (account, "key", MODEL, "chat", 0, None, DEADLINE, 1, start, 10**7)
        none, empty, zero = [None] * BATCH, [""] * BATCH, [0] * BATCH
        ids = [new_id() for _ in range(BATCH)]
        names = (ids, zero, none, none, [TOKENS] * BATCH, zero)
        bodies = ([PAYLOAD] * BATCH, empty, [self._ticket] * BATCH)
        rest = (zero, ["{}"] * BATCH, empty, empty)
        await self._fetch(SUBMIT["add"], (*shared, *names, *bodies, *rest))

    async def _claim(self) -> list[Any]:
        warm: list[int] = []
        values = (MODEL, BATCH, warm, 300.0, BATCH, "keeper", LEASE_SECONDS)
        return await self._fetch(CLAIM["ahead"] + CLAIM["take"], values)

    async def _finish(self, claimed: list[Any]) -> None:
        none = [None] * BATCH
        ids, epochs = [row[0] for row in claimed], [row[1] for row in claimed]
        usage = (
            [USAGE.prompt_tokens] * BATCH,
            [USAGE.completion_tokens] * BATCH,
            [USAGE.cached_tokens] * BATCH,
        )
        ends = (ids, epochs, [RESULT] * BATCH, [""] * BATCH, none, none, none)
        bill = ([CHARGE] * BATCH, ["r"] * BATCH, "job_cancelled", "The job was cancelled.", 409)
        ended = await self._fetch(END["finish"] + END["ended"], (*ends, *usage, *bill))
        jobs = Counter(row[1] for row in ended)
        correction = USAGE.prompt_tokens + USAGE.completion_tokens - TOKENS
        tags = (
            [MODEL] * len(jobs),
            [0] * len(jobs),
            list(jobs),
            list(jobs.values()),
            [float(correction * count) for count in jobs.values()],
        )
        await self._connection.execute(AFTER_JOB_END["correct_tags"], tags)
        events = (
            [new_id() for _ in ended],
            [row[1] for row in ended],
            ["job.succeeded"] * len(ended),
            [f'{{"id":"{row[0]}","model":"{MODEL}","state":"succeeded"}}' for row in ended],
        )
        await self._connection.execute(OUTBOX, events)

    async def _charge(self, claimed: list[Any]) -> None:
        await self._connection.execute(LEDGER["stage"])
        async with self._connection.cursor() as cursor, cursor.copy(LEDGER["copy"]) as copying:
            await copying.write(b"".join(ledger_line(row[0], row[2], row[1]) for row in claimed))
        await self._fetch(LEDGER["new_workflows"], (1000,))
        new = [row[0] for row in await self._fetch(LEDGER["insert_charged"])]
        days = sorted({_day(row[0]) for row in claimed})
        await self._connection.execute(LEDGER["charge"], (days, days, new, FLEX_HOLDER, [], []))


def _day(job: str) -> date:
    return datetime.fromtimestamp(int(job[:8] + job[9:13], 16) / 1000, UTC).date()
