"""Accounts that submit jobs and a keeper that runs them, for the queue's tests."""

from collections import Counter
from collections.abc import Sequence
from typing import LiteralString

from penstock.clock import SystemClock, new_id
from penstock.queue import Claim, Finished, Queue, QueueSettings, Submitted, Swept
from penstock.records.account import AccountId, KeyId
from penstock.records.job import (
    BatchId,
    ClaimedJob,
    Door,
    Job,
    JobEnd,
    JobFailure,
    JobId,
    JobState,
    NewJob,
    Priority,
    Submission,
    Ticket,
    TicketChain,
)
from penstock.records.model import ModelId
from penstock.records.price import Price
from penstock.records.usage import Usage
from penstock.store import Store
from penstock.store.pool import Row

MODEL = ModelId("@test/model")
ANNA = AccountId("a" * 32)
BERT = AccountId("b" * 32)
TOKENS = 100
_PRICE = Price(1_000_000, 0, 1_000_000)


def new_job(tokens: int = TOKENS, *, item: int = 0, key: str | None = None) -> NewJob:
    ticket = Ticket(prompt_tokens_estimate=tokens, price=_PRICE.terms, limits=(7,))
    return NewJob(JobId(new_id()), b"{}", ticket, item=item, idempotency_key=key)


def opening_with(opening: int) -> NewJob:
    """A job whose conversation begins so."""
    ticket = Ticket(prompt_tokens_estimate=TOKENS, chain=TicketChain(opening=opening))
    return NewJob(JobId(new_id()), b"{}", ticket)


class Work:
    """The queue with a transaction around each call."""

    def __init__(self, store: Store, settings: QueueSettings | None = None) -> None:
        self.store = store
        self.queue = Queue(settings or QueueSettings())

    async def submit(
        self,
        jobs: Sequence[NewJob] | int,
        account: AccountId = ANNA,
        *,
        weight: int = 1,
        batch: BatchId | None = None,
        priority: Priority = Priority.FLEX,
        seconds: float = 3600,
    ) -> Submitted:
        submission = Submission(
            account=account,
            key=KeyId("k"),
            model=MODEL,
            door=Door.CHAT,
            deadline=SystemClock().now() + seconds,
            priority=priority,
            weight=weight,
            batch=batch,
        )
        new = [new_job(item=n) for n in range(jobs)] if isinstance(jobs, int) else jobs
        async with self.store.transaction() as tx:
            return await self.queue.submit(tx, submission, new)

    async def claim(
        self,
        count: int = 1,
        *,
        keeper: str = "keeper-1",
        warm: tuple[int, ...] = (),
        aged_only: bool = False,
        lease_seconds: float = 60,
    ) -> list[ClaimedJob]:
        want = Claim(MODEL, count, keeper, lease_seconds, warm, aged_only)
        async with self.store.transaction() as tx:
            return await self.queue.claim(tx, want)

    async def finish(self, jobs: Sequence[ClaimedJob], tokens: int = TOKENS) -> Finished:
        ends = [
            JobEnd(job.id, job.epoch, b'{"answer":1}', usage=Usage(tokens, 0, 0)) for job in jobs
        ]
        async with self.store.transaction() as tx:
            return await self.queue.finish(tx, ends)

    async def serve(self, count: int, at_a_time: int = 10) -> Counter[AccountId]:
        """Run so many jobs in the queue's order; how many each account got."""
        served: Counter[AccountId] = Counter()
        while count > 0 and (claimed := await self.claim(min(count, at_a_time))):
            await self.finish(claimed)
            served.update(job.account for job in claimed)
            count -= len(claimed)
        return served

    async def find(self, job: JobId) -> Job:
        async with self.store.transaction() as tx:
            found = await self.queue.find(tx, None, job)
        assert found is not None
        return found

    async def fetch(self, sql: LiteralString, *values: object) -> list[Row]:
        async with self.store.transaction() as tx:
            return await tx.fetch(sql, values)

    async def execute(self, sql: LiteralString, *values: object) -> int:
        async with self.store.transaction() as tx:
            return await tx.execute(sql, values)

    async def open_jobs(self, account: AccountId = ANNA) -> int:
        rows = await self.fetch("select sum(open_jobs) from fair_tags where account = %s", account)
        return int(rows[0][0] or 0)

    async def tag(self, account: AccountId = ANNA) -> float:
        rows = await self.fetch("select tag from fair_tags where account = %s", account)
        return float(rows[0][0])

    async def fill(self, account: AccountId, jobs: int) -> None:
        """Queue many equal jobs as `submit` would, but made by Postgres itself."""
        await self.execute(
            """
            insert into jobs (
                id, account, key, model, door, priority, item, deadline, tag, tokens, weight,
                opening, payload, payload_object, ticket, held, limits, workflow, session
            )
            select
                ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, %s, 'k', %s, 'chat',
                0, 0, now() + interval '1 day', n * %s, %s, 1, 0, '{}', '', %s, 0, '{}', '', ''
            from generate_series(1, %s) as n
            """,
            account,
            MODEL,
            TOKENS,
            TOKENS,
            b"\x80",
            jobs,
        )
        await self.execute(
            "insert into fair_tags (model, priority, account, tag, weight, open_jobs)"
            " values (%s, 0, %s, %s, 1, %s)",
            MODEL,
            account,
            jobs * TOKENS,
            jobs,
        )


LOST = JobFailure("engine_lost", "The engine went away.", 502)


def held(*jobs: ClaimedJob) -> list[tuple[JobId, int]]:
    return [(job.id, job.epoch) for job in jobs]


async def lapse(work: Work) -> Swept:
    """Let all leases be over, and sweep."""
    await work.execute(
        "update jobs set lease_until = now() - interval '1 second' where state = 'running'"
    )
    return await sweep(work)


async def sweep(work: Work) -> Swept:
    async with work.store.transaction() as tx:
        return await work.queue.sweep(tx)


async def retry(work: Work, job: ClaimedJob) -> JobState:
    async with work.store.transaction() as tx:
        return (await work.queue.retry(tx, job.id, job.epoch, LOST)).state
