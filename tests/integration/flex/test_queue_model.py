"""Whatever is done to the queue, in whatever order: it does what a model of it in Python does."""

import random

import pytest
from tests.integration.cells.queue_model import ModelJob, ModelQueue
from tests.integration.cells.queue_work import ANNA, BERT, LOST, Work, new_job, sweep

from penstock.clock import SystemClock
from penstock.errors import LeaseLost
from penstock.queue import TRANSITIONS, QueueSettings
from penstock.records.account import AccountId
from penstock.records.job import JobEnd, JobId, JobState, Priority
from penstock.records.usage import Usage
from penstock.store import Store

ATTEMPTS_MAX = 3
STEPS = 400
# Shares by which tokens divide exactly, so that both sides come to the same floats.
WEIGHTS = {ANNA: 1, BERT: 2, AccountId("c" * 32): 4}
MADE_LATE = """
    update jobs set deadline = now() - interval '1 second' where id = %s
"""
LAPSED = """
    update jobs set lease_until = now() - interval '1 second' where id = any (%s::uuid[])
"""


class Walk:
    """A seeded walk over everything that can be done to a queue, on both sides at once."""

    def __init__(self, store: Store, seed: int) -> None:
        self.random = random.Random(seed)
        self.work = Work(
            store, QueueSettings(attempts_max=ATTEMPTS_MAX, retry_seconds=0, retry_seconds_max=0)
        )
        self.model = ModelQueue(ATTEMPTS_MAX)
        # Every claim there ever was: most are stale, and must be refused as such.
        self.claims: list[tuple[JobId, int]] = []
        # Dropped while they were being cancelled: their leases have ended, and no one else's.
        self.dropped: set[JobId] = set()

    async def step(self) -> None:
        often = (self.submit, self.claim, self.finish)
        seldom = (self.put_back, self.retry, self.cancel, self.be_late, self.be_late, self.sweep)
        await self.random.choice((*often, *often, *seldom))()

    def some_claim(self) -> tuple[JobId, int] | None:
        return self.random.choice(self.claims[-20:]) if self.claims else None

    def some_job(self) -> JobId | None:
        """One that waits or one that runs, as likely; sometimes one that has ended."""
        state = self.random.choice(list(JobState))
        jobs = [id for id, job in self.model.jobs.items() if job.state is state]
        return self.random.choice(jobs) if jobs else None

    def is_held(self, claim: tuple[JobId, int]) -> bool:
        job = self.model.jobs[claim[0]]
        return job.state is JobState.RUNNING and job.epoch == claim[1]

    async def submit(self) -> None:
        account = self.random.choice(list(WEIGHTS))
        priority = self.random.choice(list(Priority))
        keys = [self.random.choice([None, None, f"key {self.random.randrange(20)}"])] * 2
        # Odd, and different: no two jobs have one tag, so there is one order.
        jobs = [new_job(1 + 4 * self.random.randrange(2**20), key=key) for key in keys]
        submitted = await self.work.submit(
            jobs, account, weight=WEIGHTS[account], priority=priority
        )
        for job, id in zip(jobs, submitted.ids, strict=True):
            added = ModelJob(job.id, account, priority, job.tokens, WEIGHTS[account], 0.0)
            assert self.model.add(added, job.idempotency_key) == id

    async def claim(self) -> None:
        count = self.random.randrange(1, 5)
        claimed = await self.work.claim(count)
        assert {job.id for job in claimed} == set(self.model.claim(count))
        self.claims += [(job.id, job.epoch) for job in claimed]

    async def finish(self) -> None:
        claim = self.some_claim()
        if claim is None:
            return
        used = self.random.choice([None, self.random.randrange(1000) * 4])
        failure = self.random.choice([None, LOST])
        usage = None if used is None else Usage(used, 0)
        async with self.work.store.transaction() as tx:
            finished = await self.work.queue.finish(
                tx, [JobEnd(*claim, failure=failure, usage=usage)]
            )
        assert (finished.done | finished.cancelled == {claim[0]}) == self.is_held(claim)
        if self.is_held(claim):
            state = JobState.FAILED if failure else JobState.SUCCEEDED
            self.model.finish(claim[0], state, used)

    async def put_back(self) -> None:
        claim, is_deferred = self.some_claim(), self.random.random() < 0.5
        if claim is None:
            return
        async with self.work.store.transaction() as tx:
            if is_deferred:
                await self.work.queue.defer(tx, [claim], SystemClock().now() - 1)
            else:
                await self.work.queue.give_back(tx, [claim])
        if self.is_held(claim):
            if self.model.jobs[claim[0]].is_cancelling:
                self.dropped.add(claim[0])
            self.model.put_back(claim[0], is_deferred=is_deferred)

    async def retry(self) -> None:
        claim = self.some_claim()
        if claim is None:
            return
        async with self.work.store.transaction() as tx:
            if self.is_held(claim):
                await self.work.queue.retry(tx, *claim, LOST)
                self.model.retry(claim[0])
            else:
                with pytest.raises(LeaseLost):
                    await self.work.queue.retry(tx, *claim, LOST)

    async def cancel(self) -> None:
        job = self.some_job()
        if job is not None:
            async with self.work.store.transaction() as tx:
                await self.work.queue.cancel(tx, None, job)
            self.model.cancel(job)

    async def be_late(self) -> None:
        job = self.some_job()
        if job is not None:
            await self.work.execute(MADE_LATE, job)
            self.model.jobs[job].is_late = True

    async def sweep(self) -> None:
        running = [id for id, job in self.model.jobs.items() if job.state is JobState.RUNNING]
        lapsed = set(self.random.sample(running, len(running) // 2)) | self.dropped & set(running)
        await self.work.execute(LAPSED, list(lapsed))
        await sweep(self.work)
        self.model.sweep(lapsed)
        self.dropped.clear()

    async def compare(self) -> None:
        rows = await self.work.fetch(
            "select id::text, state, epoch, attempts, is_cancelling, is_deferred, tag from jobs"
        )
        assert {row[0]: tuple(row[1:]) for row in rows} == {
            job.id: (
                job.state, job.epoch, job.attempts, job.is_cancelling, job.is_deferred, job.tag,
            )
            for job in self.model.jobs.values()
        }  # fmt: skip
        tags = await self.work.fetch("select priority, account, tag, open_jobs from fair_tags")
        open_jobs = [job for job in self.model.jobs.values() if not job.state.is_final]
        for priority, account, tag, count in tags:
            place = (priority, account)
            assert tag == self.model.tags[place]
            assert count == sum((job.priority, job.account) == place for job in open_jobs)


@pytest.mark.parametrize("seed", range(3))
async def test_the_queue_does_what_its_model_does(store: Store, seed: int) -> None:
    walk = Walk(store, seed)
    for _ in range(STEPS):
        await walk.step()
        await walk.compare()

    allowed = {(one, other) for one, others in TRANSITIONS.items() for other in others}
    # Every way there is was gone, and no other.
    assert walk.model.seen == allowed
    held_back = "select count(*) from jobs where held > 0 and finished_at is not null"
    assert await walk.work.fetch(held_back) == [(0,)]
