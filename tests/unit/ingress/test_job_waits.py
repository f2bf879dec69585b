"""Waiting for jobs: one question for all, bounded, and what is given up is cancelled."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.errors import Overloaded, StoreUnavailable
from penstock.ingress.jobs.job_waits import JobWaits
from penstock.ingress.settings import IngressSettings
from penstock.records.account import AccountId
from penstock.records.job import Door, Job, JobId, JobState, Priority
from penstock.records.model import ModelId

ACME = AccountId("acme")


def job(name: str) -> Job:
    return Job(
        JobId(name), ACME, ModelId("m"), Door.CHAT, Priority.FLEX, JobState.SUCCEEDED, None, 0,
        None, 0.0, 1.0,
    )  # fmt: skip


class Desk:
    """Jobs that have ended, and what was asked of it."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.asked: list[list[str]] = []
        self.cancelled: list[tuple[str, str]] = []
        self.is_away = False

    async def find_ended(self, jobs: Sequence[JobId]) -> Sequence[Job]:
        if self.is_away:
            raise StoreUnavailable
        self.asked.append(list(jobs))
        return [job(each) for each in jobs if each in self.ended]

    async def cancel(self, account: AccountId, job: JobId) -> None:
        if self.is_away:
            raise StoreUnavailable
        self.cancelled.append((account, job))


def make(desk: Desk, waits_max: int = 100) -> JobWaits:
    return JobWaits(desk.find_ended, desk.cancel, IngressSettings(job_waits_max=waits_max))


async def test_all_who_wait_are_asked_for_in_one_question() -> None:
    desk = Desk()
    waits = make(desk)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(waits.wait(JobId(name))) for name in ("a", "b", "b")]
        await asyncio.sleep(0)
        desk.ended = {"b"}
        await waits.look()
        assert desk.asked == [["a", "b"]]
        desk.ended = {"a"}
        await asyncio.sleep(0)
        await waits.look()
        assert desk.asked[-1] == ["a"]
    assert [found.id if (found := task.result()) else None for task in tasks] == ["a", "b", "b"]
    await waits.look()
    assert len(desk.asked) == 2, "nobody waits, nothing is asked"


async def test_many_are_asked_for_in_pieces() -> None:
    desk = Desk()
    waits = make(desk)
    async with asyncio.TaskGroup() as group:
        for number in range(1500):
            group.create_task(waits.wait(JobId(str(number))))
        await asyncio.sleep(0)
        desk.ended = {str(number) for number in range(1500)}
        await waits.look()
    assert [len(ids) for ids in desk.asked] == [1000, 500]


async def test_wait_ends_at_its_limit() -> None:
    waits = make(Desk())
    assert await waits.wait(JobId("a"), 0.01) is None
    await waits.look()


async def test_given_up_jobs_are_cancelled_once_also_after_an_outage() -> None:
    desk = Desk()
    waits = make(desk)
    waits.give_up(ACME, JobId("a"))
    desk.is_away = True
    await waits.look()
    assert desk.cancelled == []
    desk.is_away = False
    await waits.look()
    await waits.look()
    assert desk.cancelled == [("acme", "a")]


async def test_those_who_wait_sit_out_an_outage() -> None:
    desk = Desk()
    waits = make(desk)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(waits.wait(JobId("a")))
        await asyncio.sleep(0)
        desk.is_away, desk.ended = True, {"a"}
        await waits.look()
        assert waits.failures == 1
        assert not waiting.done()
        desk.is_away = False
        await waits.look()
    assert waiting.result() is not None


async def test_what_is_given_up_in_an_outage_is_bounded() -> None:
    desk = Desk()
    waits = make(desk, waits_max=2)
    for name in ("a", "b", "c"):
        waits.give_up(ACME, JobId(name))
    await waits.look()
    assert [each for _, each in desk.cancelled] == ["b", "c"]
    assert waits.forgotten == 1


async def test_worker_that_stops_cancels_all_that_was_given_up() -> None:
    desk = Desk()
    waits = make(desk, waits_max=1000)
    for number in range(120):
        waits.give_up(ACME, JobId(str(number)))
    await waits.finish()
    assert len(desk.cancelled) == 120
    waits.give_up(ACME, JobId("late"))
    desk.is_away = True
    # Postgres is away: it does not wait for it.
    await waits.finish()
    assert len(desk.cancelled) == 120


def test_places_are_bounded_and_given_back() -> None:
    waits = make(Desk(), waits_max=2)
    with waits.place(ACME), waits.place(ACME):
        assert len(waits) == 2
        with pytest.raises(Overloaded), waits.place(ACME):
            pass
    assert len(waits) == 0
    with waits.place(ACME):
        assert len(waits) == 1
