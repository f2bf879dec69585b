"""The queue by its rules, in plain Python, one job after the other: what the SQL must equal."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from penstock.records.account import AccountId
from penstock.records.job import JobId, JobState, Priority

QUEUED, RUNNING = JobState.QUEUED, JobState.RUNNING
CANCELLED, EXPIRED, FAILED = JobState.CANCELLED, JobState.EXPIRED, JobState.FAILED


class ModelJob(msgspec.Struct):
    """One job's row, as far as its order and its states go."""

    id: JobId
    account: AccountId
    priority: Priority
    tokens: int
    weight: int
    tag: float
    state: JobState = QUEUED
    epoch: int = 0
    attempts: int = 0
    is_cancelling: bool = False
    is_deferred: bool = False
    is_late: bool = False


Place = tuple[Priority, AccountId]


class ModelQueue:
    """One model's queue. What it does is decided here a second time, one job after the other."""

    def __init__(self, attempts_max: int) -> None:
        self.jobs: dict[JobId, ModelJob] = {}
        self.keys: dict[tuple[AccountId, str], JobId] = {}
        self.tags: dict[Place, float] = defaultdict(float)
        self.clocks: dict[Priority, float] = defaultdict(float)
        self.seen: set[tuple[JobState, JobState]] = set()
        self._attempts_max = attempts_max

    def add(self, job: ModelJob, key: str | None) -> JobId:
        if key is not None and (job.account, key) in self.keys:
            return self.keys[job.account, key]
        place = (job.priority, job.account)
        start = max(self.tags[place], self.clocks[job.priority])
        job.tag = self.tags[place] = start + job.tokens / job.weight
        self.jobs[job.id] = job
        if key is not None:
            self.keys[job.account, key] = job.id
        return job.id

    def claim(self, count: int) -> list[JobId]:
        claimed = self._take(count)
        if len(claimed) < count:
            self.wake()
            claimed += self._take(count - len(claimed))
        return [job.id for job in claimed]

    def wake(self) -> None:
        for job in self.jobs.values():
            job.is_deferred = False

    def put_back(self, id: JobId, *, is_deferred: bool) -> None:
        job = self.jobs[id]
        if not job.is_cancelling:
            self._move(job, QUEUED)
            job.attempts -= 1
            job.is_deferred = is_deferred

    def retry(self, id: JobId) -> None:
        job = self.jobs[id]
        if job.is_cancelling or job.is_late or job.attempts >= self._attempts_max:
            self._end(job, CANCELLED if job.is_cancelling else FAILED)
            return
        self._move(job, QUEUED)
        job.is_deferred = True

    def finish(self, id: JobId, state: JobState, used: int | None) -> None:
        job = self.jobs[id]
        if job.is_cancelling:
            self._end(job, CANCELLED)
            return
        self._end(job, state)
        if used is not None:
            self.tags[job.priority, job.account] += (used - job.tokens) / job.weight

    def cancel(self, id: JobId) -> None:
        job = self.jobs[id]
        if job.state is RUNNING:
            job.is_cancelling = True
        elif job.state is QUEUED:
            self._end(job, CANCELLED)
            self._pull_back((job.priority, job.account))

    def sweep(self, lapsed: Iterable[JobId]) -> None:
        for job in [self.jobs[id] for id in lapsed]:
            if job.is_cancelling:
                self._end(job, CANCELLED)
            elif job.is_late:
                self._end(job, EXPIRED)
            elif job.attempts >= self._attempts_max:
                self._end(job, FAILED)
            else:
                self._move(job, QUEUED)
        late = [job for job in self.jobs.values() if job.state is QUEUED and job.is_late]
        for job in late:
            self._end(job, EXPIRED)
        for place in {(job.priority, job.account) for job in late}:
            self._pull_back(place)
        self.wake()

    def _take(self, count: int) -> list[ModelJob]:
        ready = [
            job
            for job in self.jobs.values()
            if job.state is QUEUED and not job.is_deferred and not job.is_late
        ]
        taken = sorted(ready, key=lambda job: (job.priority, job.tag))[:count]
        for job in taken:
            self._move(job, RUNNING)
            job.epoch += 1
            job.attempts += 1
            self.clocks[job.priority] = max(self.clocks[job.priority], job.tag)
        return taken

    def _pull_back(self, place: Place) -> None:
        queued = [
            job.tag
            for job in self.jobs.values()
            if job.state is QUEUED and (job.priority, job.account) == place
        ]
        self.tags[place] = max([self.clocks[place[0]], *queued])

    def _end(self, job: ModelJob, state: JobState) -> None:
        self._move(job, state)
        job.is_cancelling = job.is_deferred = False

    def _move(self, job: ModelJob, state: JobState) -> None:
        self.seen.add((job.state, state))
        job.state = state
