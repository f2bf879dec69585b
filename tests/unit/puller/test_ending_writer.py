"""What ended is written together, again while Postgres is away, and dropped when it is too late."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.unit.puller.pulled_samples import a_job

from penstock.errors import StoreUnavailable
from penstock.puller.counts import PullerCounts
from penstock.puller.ended_job import EndedJob, Ending
from penstock.puller.ending_writer import EndingWriter
from penstock.puller.pulled_job import PulledJob
from penstock.puller.settings import PullerSettings
from penstock.testing import ManualClock


class Book:
    """Postgres, as far as a writer sees it: away for some tries, or with a job it cannot take."""

    def __init__(self, away: int = 0, poison: PulledJob | None = None) -> None:
        self.away = away
        self.poison = poison
        self.written: list[list[EndedJob]] = []

    async def write(self, ended: Sequence[EndedJob]) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable
        if any(each.job is self.poison for each in ended):
            raise ValueError("no such thing can be written")
        self.written.append(list(ended))


class Scene:
    def __init__(self, book: Book) -> None:
        self.clock = ManualClock()
        self.counts = PullerCounts()
        self.settled: list[PulledJob] = []
        settings = PullerSettings(gather_seconds=0.0, completions_max=1, lease_seconds=10.0)
        self.writer = EndingWriter(book, settings, self.clock, self.counts, self.settled.append)

    def add(self, count: int) -> list[PulledJob]:
        until = self.clock.monotonic() + 10.0
        jobs = [a_job(lease_until=until) for _ in range(count)]
        for job in jobs:
            self.writer.add(EndedJob(job, Ending.SUCCEEDED))
        return jobs

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self.writer.run())
            yield
            writing.cancel()


async def test_what_ended_together_is_written_together() -> None:
    book = Book()
    scene = Scene(book)
    jobs = scene.add(5)
    async with scene.running():
        assert await scene.writer.wait_until_written(5.0)
    assert [len(batch) for batch in book.written] == [5]
    assert scene.settled == jobs
    assert all(job.is_ending for job in jobs)


async def test_while_postgres_is_away_it_is_tried_again() -> None:
    book = Book(away=2)
    scene = Scene(book)
    scene.add(3)
    async with scene.running():
        assert await scene.writer.wait_until_written(5.0)
    assert len(book.written) == 1
    assert scene.counts.lost == 0


async def test_after_its_lease_has_surely_lapsed_a_job_is_dropped_quietly() -> None:
    book = Book(away=1000)
    scene = Scene(book)
    jobs = scene.add(1)
    scene.clock.advance(21.0)
    async with scene.running():
        assert await scene.writer.wait_until_written(5.0)
    assert scene.counts.lost == 1
    assert scene.settled == jobs
    assert book.written == []


async def test_one_job_that_cannot_be_written_does_not_hold_up_the_others() -> None:
    book = Book()
    scene = Scene(book)
    jobs = scene.add(5)
    book.poison = jobs[2]
    async with scene.running():
        assert await scene.writer.wait_until_written(5.0)
    written = {each.job.claimed.id for batch in book.written for each in batch}
    assert written == {job.claimed.id for job in jobs} - {jobs[2].claimed.id}
    assert scene.counts.lost == 1
