"""The queue, as the other rooms see it: one object with the room's settings bound to it.

It has no connection and no state: every call takes the caller's open transaction, so that a job,
its money and its events commit together. Times are Postgres's own: hosts need not agree on them.
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

# A claimed job and the epoch of its claim: what its keeper shows for every change.
Held = tuple[JobId, int]


class Queue:
    """Everything that changes or reads jobs. Batches have a door of their own."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings

    async def submit(
        self, tx: Transaction, submission: Submission, jobs: Sequence[NewJob]
    ) -> Submitted:
        """Add jobs, all of them or none: QueueFull beyond the account's limit.

        A job that is there already, by its idempotency key or its place in its batch, is not added
        again and moves nothing.
        """
        return await submitting.submit(tx, submission, jobs, self.settings.open_jobs_max)

    async def claim(self, tx: Transaction, want: Claim) -> list[ClaimedJob]:
        """Take up to `want.count` jobs in fair order, for as long as the lease lasts."""
        return await claims.claim(tx, want, self.settings)

    async def renew(self, tx: Transaction, held: Sequence[Held], lease_seconds: float) -> Renewed:
        """Keep leases. What is in neither set is lost: stop it quietly."""
        return await leases.renew(tx, held, lease_seconds)

    async def give_back(self, tx: Transaction, held: Sequence[Held]) -> set[JobId]:
        """Put back what was not begun: it keeps its place, and the attempt is not counted."""
        return await leases.give_back(tx, held)

    async def defer(self, tx: Transaction, held: Sequence[Held], until: float) -> set[JobId]:
        """Put back what may not run now, not to be claimed before `until` (seconds since 1970)."""
        return await leases.defer(tx, held, until)

    async def finish(self, tx: Transaction, ends: Sequence[JobEnd]) -> Finished:
        """End jobs that were run. Those whose lease was lost are left as they are."""
        return await ending.finish(tx, ends)

    async def retry(self, tx: Transaction, job: JobId, epoch: int, failure: JobFailure) -> Retried:
        """Try a job again later, or let it fail for good; LeaseLost when it is another's now."""
        return await ending.retry(tx, (job, epoch), failure, self.settings)

    async def cancel(
        self, tx: Transaction, account: AccountId | None, job: JobId
    ) -> Cancelled | None:
        """Cancel a waiting job at once, ask a running one to stop. None: no such job of theirs."""
        return await ending.cancel(tx, account, job)

    async def cancel_batch(
        self, tx: Transaction, account: AccountId | None, batch: BatchId
    ) -> CancelledBatch | None:
        """Cancel some of what is left of a batch; again until none is. None: no such batch."""
        return await ending.cancel_batch(tx, account, batch, self.settings.sweep_jobs_max)

    async def find(self, tx: Transaction, account: AccountId | None, job: JobId) -> Job | None:
        """One job with its answer; `account` None finds anybody's."""
        return await job_queries.find(tx, account, job)

    async def ended(self, tx: Transaction, jobs: Sequence[JobId]) -> list[Job]:
        """Those of the jobs that have ended, with their answers; for those who wait for them."""
        return await job_queries.ended(tx, jobs)

    async def results_kept(self, tx: Transaction, jobs: Sequence[JobId]) -> dict[JobId, str]:
        """Those of the jobs that have ended, with the objects of their answers, if any."""
        return await job_queries.results_kept(tx, jobs)

    async def list_jobs(self, tx: Transaction, query: JobQuery) -> list[Job]:
        """A page of jobs, newest first, without their answers."""
        return await job_queries.list_jobs(tx, query, self.settings.page_jobs_max)

    async def position(self, tx: Transaction, job: JobId) -> int | None:
        """Its place among its account's waiting jobs of this model and priority, from 1.

        Counted up to `position_max`. None: it does not wait.
        """
        return await job_queries.position(tx, job, self.settings.position_max)

    async def eta_seconds(self, tx: Transaction, job: JobId) -> float | None:
        """How long until it is begun, by the measured rate. None: it does not wait, or no rate."""
        return await measuring.eta_seconds(tx, job, self.settings.position_max)

    async def sweep(self, tx: Transaction) -> Swept:
        """Take up what nobody holds: lapsed leases, past deadlines, deferred jobs whose time came.

        A bounded number at a time; run it again at once while `is_full`.
        """
        return await sweeping.sweep(tx, self.settings)

    async def measure(self, tx: Transaction) -> None:
        """Write down how each model's queue does. One process does this, every few seconds."""
        await measuring.measure(tx, self.settings)

    async def stats(self, tx: Transaction) -> dict[ModelId, FlexStats]:
        """What was measured last."""
        return await measuring.stats(tx)

    async def find_old(self, tx: Transaction) -> dict[JobId, list[str]]:
        """Some of the jobs that are kept no longer, with the objects that belong to each."""
        return await sweeping.find_old(tx, self.settings)

    async def delete(self, tx: Transaction, jobs: Collection[JobId]) -> None:
        """Delete these jobs, once their objects are gone, and batches that have none left."""
        await sweeping.delete(tx, jobs, self.settings)

    async def controls(self, tx: Transaction) -> dict[ModelId, FlexControl]:
        """What operators have said, by model."""
        return await controls.read(tx)

    async def set_control(self, tx: Transaction, model: ModelId, control: FlexControl) -> None:
        """Pause a model's flex work, let it go on, or bound how much of it runs at a time."""
        await controls.write(tx, model, control)
