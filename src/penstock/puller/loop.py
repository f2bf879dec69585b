"""The puller: observe each replica, claim jobs it has room for, run them, write how they ended.

Open this file first. Decisions are in `headroom.py` and `failure_verdict.py`, one replica in
`lane.py`, Postgres in `job_book.py`. It promises that live requests go first, that a job whose
claim is lost is stopped and never written, and that an outage of Postgres stops no running job.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.clock import Clock
from penstock.errors import Error, InternalError, StoreUnavailable
from penstock.puller.ended_job import EndedJob, Ending
from penstock.puller.ending_writer import EndingWriter
from penstock.puller.failure_verdict import (
    FailureVerdict,
    as_job_failure,
    is_replica_at_fault,
    judge,
)
from penstock.puller.headroom import Room
from penstock.puller.job_book import JobBook, WantedJobs
from penstock.puller.lane import Lane
from penstock.puller.leases import Leases
from penstock.puller.pulled_job import PulledJob, StopReason
from penstock.puller.runner import Runner
from penstock.puller.settings import PullerSettings
from penstock.records.replica import Replica, ReplicaId
from penstock.records.signal import EngineClaim
from penstock.routing import Router

if TYPE_CHECKING:
    from penstock.queue import FlexControl
    from penstock.records.job import ClaimedJob
    from penstock.records.model import ModelId

logger = logging.getLogger(__name__)


class Engines(Protocol):
    """The port that a keeper satisfies: its ready and healthy replicas, and their figures."""

    def ready(self) -> Sequence[Replica]: ...

    def claims(self, now: float) -> Sequence[EngineClaim]: ...


class Puller:
    """Pulls jobs for one keeper. `run` is called once; `stop` asks it to end in order."""

    def __init__(
        self,
        engines: Engines,
        router: Router,
        runner: Runner,
        book: JobBook,
        settings: PullerSettings,
        clock: Clock,
    ) -> None:
        self.counts = book.counts
        self.lanes: dict[ReplicaId, Lane] = {}
        self._engines = engines
        self._router = router
        self._runner = runner
        self._book = book
        self._settings = settings
        self._clock = clock
        self._controls: dict[ModelId, FlexControl] = {}
        self._leases = Leases(book, settings, clock, self.counts)
        self._writer = EndingWriter(book, settings, clock, self.counts, self._leases.remove)
        self._stopping = asyncio.Event()
        self._has_slot = asyncio.Event()
        # Set while no job is at an engine.
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def run(self) -> None:
        """Run until `stop`; then hand back unbegun jobs, and let the rest end for a while."""
        async with asyncio.TaskGroup() as loops:
            beside = [
                loops.create_task(self._writer.run()),
                loops.create_task(self._leases.run()),
                loops.create_task(self._read_controls()),
            ]
            async with asyncio.TaskGroup() as jobs:
                await self._pull(jobs)
                await self._drain()
            await self._writer.wait_until_written(self._settings.last_write_seconds)
            for loop in beside:
                loop.cancel()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()
        self._has_slot.set()

    def in_flight(self) -> int:
        return sum(len(lane.jobs) for lane in self.lanes.values())

    async def _pull(self, jobs: asyncio.TaskGroup) -> None:
        while not self._stopping.is_set():
            try:
                self._look(jobs)
            except Exception:
                # Caught here so that running jobs are still completed.
                self.counts.failures += 1
                logger.exception("puller look failed", extra={"action": "puller_look_failed"})
            await self._next_look()

    async def _next_look(self) -> None:
        """Wait for a while, or until soon after a job has ended, so that its slot is refilled."""
        settings = self._settings
        self._has_slot.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settings.look_seconds):
                await self._has_slot.wait()
        # Jobs that end within a few milliseconds of each other share a claim.
        await asyncio.sleep(settings.gather_seconds)

    def _look(self, jobs: asyncio.TaskGroup) -> None:
        now = self._clock.monotonic()
        self._keep_lanes(self._engines.ready())
        claiming = sum(lane.is_claiming for lane in self.lanes.values())
        for claim in self._engines.claims(now):
            lane = self.lanes.get(ReplicaId(claim.replica))
            if lane is None or not claim.is_healthy:
                continue
            known = self._router.knowledge.replica(lane.replica)
            known.tell_rate(claim.prefill_rate)
            room = lane.look(known, claim, self._controls.get(lane.replica.model), now)
            if room.give_back:
                self._give_back(lane, room.give_back, now)
            if claiming >= self._settings.claims_max:
                continue
            if (room.start or room.start_aged) and lane.may_claim(now):
                lane.is_claiming = True
                claiming += 1
                jobs.create_task(self._claim(lane, room, jobs))

    def _keep_lanes(self, replicas: Sequence[Replica]) -> None:
        ready = {replica.id: replica for replica in replicas}
        for gone in [id_ for id_, lane in self.lanes.items() if id_ not in ready and not lane.jobs]:
            del self.lanes[gone]
        for replica in ready.values():
            lane = self.lanes.get(replica.id)
            if lane is None:
                self.lanes[replica.id] = Lane(replica, self._settings)
            elif lane.replica is not replica:
                lane.replica = replica

    def _give_back(self, lane: Lane, count: int, now: float) -> None:
        for job in lane.unbegun(now)[:count]:
            job.end(StopReason.GIVE_BACK)

    async def _claim(self, lane: Lane, room: Room, jobs: asyncio.TaskGroup) -> None:
        is_aged = not room.start
        count = min(room.start or room.start_aged, self._settings.claim_max)
        wanted = WantedJobs(
            lane.replica.model,
            count,
            lane.warm,
            is_aged=is_aged,
            accounts=lane.replica.accounts,
        )
        lease_until = self._clock.monotonic() + self._settings.lease_seconds
        claimed: list[ClaimedJob] = []
        try:
            claimed = await self._book.claim(wanted)
        except StoreUnavailable:
            logger.warning("jobs not claimed", extra={"action": "claim_waits"})
        except Exception:
            # A job that was claimed all the same is requeued when its claim lapses.
            self.counts.failures += 1
            logger.exception("jobs not claimed", extra={"action": "claim_failed"})
        finally:
            lane.is_claiming = False
        lane.note_claim(is_enough=len(claimed) == count, now=self._clock.monotonic())
        for each in claimed:
            job = PulledJob(each, lease_until, is_reserved=is_aged)
            self._leases.add(job)
            self._start(lane, job, jobs)

    def _start(self, lane: Lane, job: PulledJob, jobs: asyncio.TaskGroup) -> None:
        if self._stopping.is_set():
            self._writer.add(EndedJob(job, Ending.GIVEN_BACK))
            return
        known = self._router.knowledge.replica(lane.replica)
        lane.add(job, known.seconds_per_token, self._clock.monotonic())
        self._is_idle.clear()
        self.counts.started += 1
        self.counts.started_reserved += job.is_reserved
        job.task = jobs.create_task(self._run(lane, job))
        # Not in the task itself: a task cancelled before its first step never runs a line.
        job.task.add_done_callback(lambda task: self._ended(lane, job, task))

    async def _run(self, lane: Lane, job: PulledJob) -> EndedJob:
        """Run one job at its replica; return its answer, or what to do about its failure."""
        try:
            ended = await self._runner.run(job, lane.replica)
        except Error as failure:
            return self._failed(lane, job, failure)
        except Exception:
            # Caught here so that one job's failure does not end the others.
            self.counts.failures += 1
            extra = {"action": "job_failed", "job": job.claimed.id}
            logger.exception("job failed by a fault of ours", extra=extra)
            return self._failed(lane, job, InternalError())
        lane.note_served()
        return ended

    def _ended(self, lane: Lane, job: PulledJob, task: asyncio.Task[EndedJob]) -> None:
        lane.remove(job)
        self._has_slot.set()
        if not self.in_flight():
            self._is_idle.set()
        ended = self._stopped(job) if task.cancelled() else task.result()
        if ended is not None:
            self._writer.add(ended)

    def _stopped(self, job: PulledJob) -> EndedJob | None:
        match job.stop:
            case StopReason.CANCELLED:
                return EndedJob(job, Ending.CANCELLED)
            case StopReason.LOST:
                return None
            case _:
                return EndedJob(job, Ending.GIVEN_BACK)

    def _failed(self, lane: Lane, job: PulledJob, failure: Error) -> EndedJob:
        if is_replica_at_fault(failure):
            lane.note_failure(self._clock.monotonic())
        ending = {
            FailureVerdict.FAIL: Ending.FAILED,
            FailureVerdict.RETRY: Ending.RETRY,
            FailureVerdict.DEFER: Ending.DEFERRED,
        }[judge(failure)]
        return EndedJob(job, ending, failure=as_job_failure(failure))

    async def _drain(self) -> None:
        """Hand back unbegun jobs; let the others end for `drain_seconds`, then hand them back."""
        now = self._clock.monotonic()
        for lane in self.lanes.values():
            self._give_back(lane, len(lane.jobs), now)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_seconds):
                await self._is_idle.wait()
        for lane in self.lanes.values():
            for job in list(lane.jobs.values()):
                job.end(StopReason.GIVE_BACK)

    async def _read_controls(self) -> None:
        while True:
            try:
                self._controls = await self._book.controls()
            except StoreUnavailable:
                logger.warning("flex controls not read", extra={"action": "controls_wait"})
            except Exception:
                # Caught here: the controls that were read last stay in force.
                self.counts.failures += 1
                logger.exception("flex controls not read", extra={"action": "controls_failed"})
            await asyncio.sleep(self._settings.control_seconds)
