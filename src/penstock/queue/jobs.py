"""The queue's interface for other rooms: one object with the room's settings bound to it.

It has no connection and no state: every call uses the caller's open transaction, so that a job, its
hold and its events commit together. All times are Postgres's, so hosts' clocks need not agree.
"""

from collections.abc import Collection, Sequence

from penstock.queue import (
    claims,
    controls,
    ending,
    job_queries,
    leases,
    measuring,
    submitting,
    sweeping,
)
from penstock.queue.claims import Claim
from penstock.queue.controls import FlexControl
from penstock.queue.ending import Cancelled, CancelledBatch, Finished, Retried
from penstock.queue.job_queries import JobQuery
from penstock.queue.leases import Renewed
from penstock.queue.measuring import FlexStats
from penstock.queue.settings import QueueSettings
from penstock.queue.submitting import Submitted
from penstock.queue.sweeping import Swept
from penstock.records.account import AccountId
from penstock.records.job import (
    BatchId,
    ClaimedJob,
    Job,
    JobEnd,
    JobFailure,
    JobId,
    NewJob,
    Submission,
)
from penstock.records.model import ModelId
from penstock.store import Transaction

# A claimed job and the epoch of its claim, which its keeper passes with every change.
Held = tuple[JobId, int]


class Queue:
    """Changes and reads jobs. `Batches` handles batches."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings

    async def submit(
        self, tx: Transaction, submission: Submission, jobs: Sequence[NewJob]
    ) -> Submitted:
        """Add all of the jobs, or none and raise QueueFull if they exceed the account's limit.

        A job that already exists, by its idempotency key or its place in its batch, is not added
        again and does not advance the account's tag.
        """
        return await submitting.submit(tx, submission, jobs, self.settings.open_jobs_max)

    async def claim(self, tx: Transaction, want: Claim) -> list[ClaimedJob]:
        """Claim up to `want.count` jobs in fair order, for `want.lease_seconds`."""
        return await claims.claim(tx, want, self.settings)

    async def renew(self, tx: Transaction, held: Sequence[Held], lease_seconds: float) -> Renewed:
        """Renew claims. The claim on a job in neither returned set is lost: stop that job."""
        return await leases.renew(tx, held, lease_seconds)

    async def give_back(self, tx: Transaction, held: Sequence[Held]) -> set[JobId]:
        """Put back jobs that were not begun: they keep their place, and lose no attempt."""
        return await leases.give_back(tx, held)

    async def defer(self, tx: Transaction, held: Sequence[Held], until: float) -> set[JobId]:
        """Put back jobs that may not run now, until `until` (seconds since 1970)."""
        return await leases.defer(tx, held, until)

    async def finish(self, tx: Transaction, ends: Sequence[JobEnd]) -> Finished:
        """End jobs that were run. Jobs whose claim was lost are left unchanged."""
        return await ending.finish(tx, ends)

    async def retry(self, tx: Transaction, job: JobId, epoch: int, failure: JobFailure) -> Retried:
        """Retry a job later, or fail it for good; LeaseLost when the claim was lost."""
        return await ending.retry(tx, (job, epoch), failure, self.settings)

    async def cancel(
        self, tx: Transaction, account: AccountId | None, job: JobId
    ) -> Cancelled | None:
        """Cancel a waiting job at once, ask a running one to stop; None if there is no such job."""
        return await ending.cancel(tx, account, job)

    async def cancel_batch(
        self, tx: Transaction, account: AccountId | None, batch: BatchId
    ) -> CancelledBatch | None:
        """Cancel some of a batch's open jobs; repeat until count is 0. None: no such batch."""
        return await ending.cancel_batch(tx, account, batch, self.settings.sweep_jobs_max)

    async def find(self, tx: Transaction, account: AccountId | None, job: JobId) -> Job | None:
        """Return one job with its answer; `account` None finds any account's."""
        return await job_queries.find(tx, account, job)

    async def ended(self, tx: Transaction, jobs: Sequence[JobId]) -> list[Job]:
        """Return those of the jobs that have ended, with their answers, for waiting callers."""
        return await job_queries.ended(tx, jobs)

    async def results_kept(self, tx: Transaction, jobs: Sequence[JobId]) -> dict[JobId, str]:
        """Return the ended ones of the jobs, with the object name of each answer, or empty."""
        return await job_queries.results_kept(tx, jobs)

    async def list_jobs(self, tx: Transaction, query: JobQuery) -> list[Job]:
        """Return a page of jobs, newest first, without their answers."""
        return await job_queries.list_jobs(tx, query, self.settings.page_jobs_max)

    async def position(self, tx: Transaction, job: JobId) -> int | None:
        """Return its place among its account's waiting jobs of this model and priority, from 1.

        The count stops at `position_max`. None: the job is not waiting.
        """
        return await job_queries.position(tx, job, self.settings.position_max)

    async def eta_seconds(self, tx: Transaction, job: JobId) -> float | None:
        """Estimate the time until it begins. None where no time can be promised.

        It is not waiting, no rate was measured, its model is paused, or it will expire first.
        """
        return await measuring.eta_seconds(tx, job, self.settings.position_max)

    async def sweep(self, tx: Transaction) -> Swept:
        """Handle lapsed claims, passed deadlines, and deferred jobs that are due.

        One call handles a bounded number; call again at once while `is_full`.
        """
        return await sweeping.sweep(tx, self.settings)

    async def measure(self, tx: Transaction) -> None:
        """Measure each model's queue and store it. One process calls this every few seconds."""
        await measuring.measure(tx, self.settings)

    async def stats(self, tx: Transaction) -> dict[ModelId, FlexStats]:
        """Return the latest measurements by model."""
        return await measuring.stats(tx)

    async def find_old(self, tx: Transaction) -> dict[JobId, list[str]]:
        """Return some jobs past their retention, with the names of each job's objects."""
        return await sweeping.find_old(tx, self.settings)

    async def objects_of(self, tx: Transaction, account: AccountId, job: JobId) -> list[str] | None:
        """Return the names of an ended job's objects; None if there is no such job."""
        return await sweeping.objects_of(tx, account, job)

    async def find_ended(self, tx: Transaction, account: AccountId) -> dict[JobId, list[str]]:
        """Return some ended jobs of an account, with the names of each job's objects."""
        return await sweeping.find_ended(tx, account, self.settings.delete_jobs_max)

    async def delete(self, tx: Transaction, jobs: Collection[JobId]) -> None:
        """Delete jobs whose objects are already deleted, and old batches without jobs."""
        await sweeping.delete(tx, jobs, self.settings)

    async def controls(self, tx: Transaction) -> dict[ModelId, FlexControl]:
        """Return operators' controls by model."""
        return await controls.read(tx)

    async def set_control(self, tx: Transaction, model: ModelId, control: FlexControl) -> None:
        """Pause or resume a model's flex work, or limit how many jobs run at a time."""
        await controls.write(tx, model, control)
