"""Ends jobs: writes result, charge, settled money and event in one transaction.

Guarded by the epoch of the claim: if another keeper has the claim by now, nothing is written and
nothing is billed. May be called again with the same jobs after a StoreUnavailable.
"""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from penstock import admission, metering
from penstock.errors import StoreUnavailable, Withheld
from penstock.jobs.job_requests import held_by
from penstock.queue import Finished, Queue
from penstock.records.job import ClaimedJob, Door, JobEnd, JobFailure, JobId, Released
from penstock.records.price import Price, cost_nanousd
from penstock.records.request import RequestEnd
from penstock.store import Store
from penstock.store.kept_values import KeptValue, KeptValues
from penstock.turns import BackgroundResponses, PreparedEnding

logger = logging.getLogger(__name__)

# What ran and is charged although the job failed.
_KINDS: Final[tuple[type[Withheld], ...]] = (Withheld, *Withheld.__subclasses__())
_WITHHELD: Final = frozenset(kind.code for kind in _KINDS)


class JobCompletion(msgspec.Struct, frozen=True):
    """A job that was run, the path's facts about it, and its answer or why there is none."""

    job: ClaimedJob
    run: RequestEnd
    # The whole chat completion; or else a failure.
    result: bytes = b""
    failure: JobFailure | None = None

    @property
    def is_charged(self) -> bool:
        """Whether the account pays: for an answer, also for one that its contract withheld."""
        if self.failure is None:
            return True
        return self.failure.code in _WITHHELD and bool(self.run.charged_line)

    @property
    def charge_nanousd(self) -> int:
        """The cost at the price of the submission; a failure costs nothing."""
        if not self.is_charged or self.run.usage is None:
            return 0
        return cost_nanousd(self.run.usage, Price(*self.job.ticket.price))

    def end(self, kept: KeptValue) -> JobEnd:
        return JobEnd(
            id=self.job.id,
            epoch=self.job.epoch,
            result=kept.inline,
            result_object=kept.name,
            failure=self.failure,
            usage=self.run.usage,
            charge_nanousd=self.charge_nanousd,
            replica=self.run.replica,
        )


class CompletionRooms(msgspec.Struct, frozen=True):
    """The rooms that a completion joins."""

    store: Store
    queue: Queue
    ledger: metering.Ledger
    values: KeptValues
    responses: BackgroundResponses


async def complete(rooms: CompletionRooms, completions: Sequence[JobCompletion]) -> Finished:
    """End jobs, many at once; return which of them this keeper still had the claim to.

    StoreUnavailable leaves open whether they were ended: call again with the same jobs.
    """
    try:
        return await _complete(rooms, completions)
    except StoreUnavailable:
        raise
    except Exception:
        # A job that Postgres rejects must not hold up the others, so halves are tried. Its claim
        # lapses, and after some attempts it fails.
        if len(completions) == 1:
            job = completions[0].job.id
            logger.exception("job not completed", extra={"action": "job_stuck", "job": job})
            return Finished(frozenset(), frozenset(), ())
    middle = len(completions) // 2
    first = await complete(rooms, completions[:middle])
    second = await complete(rooms, completions[middle:])
    return Finished(
        first.done | second.done,
        first.cancelled | second.cancelled,
        first.released + second.released,
    )


async def _complete(rooms: CompletionRooms, completions: Sequence[JobCompletion]) -> Finished:
    ends = await _ends(rooms.values, completions)
    answered = [each for each in completions if each.failure is None]
    owed = [each for each in completions if each.is_charged]
    await rooms.ledger.make_days([each.run.charged_line for each in owed])
    endings = await _endings(rooms.responses, answered)
    async with rooms.store.transaction() as transaction:
        finished = await rooms.queue.finish(transaction, ends)
        done = [each for each in completions if each.job.id in finished.done]
        charges = [
            metering.JobCharge(each.run.charged_line, each.job.ticket.limits)
            for each in done
            if each.is_charged
        ]
        await metering.charge(transaction, rooms.ledger, charges)
        await rooms.responses.ended(transaction, finished.ended, endings)
        # Settled in one call, so that two completions at a time cannot deadlock.
        settlements = [
            *(admission.Settlement(_held(each.job), each.charge_nanousd) for each in done),
            *(admission.Settlement(held, 0) for held in finished.released),
        ]
        await admission.settle_jobs(transaction, settlements)
    await _forget_lost(rooms, finished, ends)
    return finished


async def _forget_lost(rooms: CompletionRooms, finished: Finished, ends: Sequence[JobEnd]) -> None:
    """Delete results of runs whose claim was lost, if no row names them or ever will.

    That is so once the job has ended otherwise: a job that still runs may give the same result.
    """
    ours = finished.done | finished.cancelled
    lost = {end.id: end.result_object for end in ends if end.result_object and end.id not in ours}
    if not lost:
        return
    try:
        async with rooms.store.transaction() as transaction:
            kept = await rooms.queue.results_kept(transaction, list(lost))
        await rooms.values.delete([lost[job] for job, name in kept.items() if name != lost[job]])
    except StoreUnavailable:
        # The lost results only take some space; the completed jobs stay completed.
        logger.warning("lost results are kept", extra={"action": "lost_results_kept"})


async def _ends(values: KeptValues, completions: Sequence[JobCompletion]) -> list[JobEnd]:
    """Encrypt the results, upload large ones, and return the jobs' ends for the queue."""
    kept = await values.keep([(each.job.account, each.job.id, each.result) for each in completions])
    await values.put(kept)
    return [each.end(value) for each, value in zip(completions, kept, strict=True)]


async def _endings(
    responses: BackgroundResponses, answered: Sequence[JobCompletion]
) -> dict[JobId, PreparedEnding]:
    """Compose the background responses among the answered jobs."""
    endings = {}
    for each in answered:
        if each.job.door is Door.RESPONSES:
            prepared = await responses.prepare(each.job, each.result)
            if prepared is not None:
                endings[each.job.id] = prepared
    return endings


def _held(job: ClaimedJob) -> Released:
    return held_by(job.account, job.key, job.id, job.ticket)
