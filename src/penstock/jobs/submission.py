"""Changes jobs together with their money and their large values.

Values are uploaded before a row names them; the rest of a call is one transaction, in which the
queue's part comes first and the money's last, so that no two calls can deadlock.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from penstock import admission
from penstock.clock import Clock
from penstock.contracts.refusals import by_owned_limit
from penstock.errors import InvalidRequest, OverLimit, Refused
from penstock.jobs.job_requests import held_by
from penstock.queue import Batches, JobQuery, NewBatch, Queue, Submitted, Swept
from penstock.queue.after_job_end import FinishedJob
from penstock.records.account import AccountId, KeyId
from penstock.records.decision_log import DecidedRequest, DecisionLog
from penstock.records.job import (
    BatchId,
    ClaimedJob,
    Job,
    JobFailure,
    JobId,
    JobState,
    NewJob,
    Submission,
)
from penstock.records.limit import Limit
from penstock.store import Store, Transaction
from penstock.store.kept_values import KeptValues

_LABEL_CHARACTERS_MAX: Final = 512

Beside = Callable[[Transaction, Submitted], Awaitable[None]]


class DeskRooms(msgspec.Struct, frozen=True):
    """The rooms that the desk joins."""

    store: Store
    queue: Queue
    batches: Batches
    values: KeptValues


class JobOwners(Protocol):
    """The port to whoever has jobs run for it: it is notified in the transaction that ends them."""

    async def ended(self, transaction: Transaction, jobs: Sequence[FinishedJob]) -> None: ...

    async def stopping(self, transaction: Transaction, job: Job) -> None:
        """Note that a job that runs was cancelled: it can only end as cancelled from here on."""
        ...


class NoOwners:
    """Nobody has jobs run for it."""

    async def ended(self, transaction: Transaction, jobs: Sequence[FinishedJob]) -> None:
        pass

    async def stopping(self, transaction: Transaction, job: Job) -> None:
        pass


class JobDesk:
    """Submits, cancels, retries and deletes jobs for ingress, control and puller. Stateless."""

    def __init__(
        self,
        rooms: DeskRooms,
        limits: admission.AdmissionSettings,
        clock: Clock,
        owners: JobOwners | None = None,
        decisions: DecisionLog | None = None,
    ) -> None:
        self._owners = owners or NoOwners()
        self._decisions = decisions or DecisionLog()
        self._store = rooms.store
        self._queue = rooms.queue
        self._batches = rooms.batches
        self._values = rooms.values
        self._lease_return_seconds = limits.lease_return_seconds
        self._clock = clock

    async def submit(
        self,
        submission: Submission,
        jobs: Sequence[NewJob],
        batch: NewBatch | None = None,
        beside: Beside | None = None,
    ) -> Submitted:
        """Submit jobs, all or none; raise QueueFull or BudgetSpent if there is no room for them.

        `beside` writes what else belongs to them, in the same transaction.
        A job that exists already is not added again and gets no further hold. So after a
        StoreUnavailable the same jobs may be submitted again.
        """
        _check_labels(jobs)
        account = submission.account
        kept = await self._values.keep([(account, job.id, job.payload) for job in jobs])
        jobs = [
            msgspec.structs.replace(job, payload=value.inline, payload_object=value.name)
            for job, value in zip(jobs, kept, strict=True)
        ]
        await self._values.put(kept)
        try:
            async with self._store.transaction() as transaction:
                if batch is not None:
                    # This may be the batch of an earlier, equal submission.
                    opened = await self._batches.open(transaction, batch)
                    submission = msgspec.structs.replace(submission, batch=opened)
                submitted = await self._submit(transaction, submission, jobs, beside)
                if batch is not None and 0 < submitted.added < len(set(submitted.ids)):
                    # The batch may have ended and been reported: no job may be added to it.
                    raise InvalidRequest("This `Idempotency-Key` was sent with other requests.")
        except Refused:
            await self._values.delete([value.name for value in kept if value.name])
            raise
        # A known job has another id: no row names what was uploaded for this one.
        is_known = zip(jobs, submitted.ids, strict=True)
        unused = [job.payload_object for job, id in is_known if job.payload_object and id != job.id]
        await self._values.delete(unused)
        return submitted

    async def cancel(self, account: AccountId | None, job: JobId) -> Job | None:
        """Cancel a queued job, or ask a running one to stop; None if the account has none such."""
        async with self._store.transaction() as transaction:
            cancelled = await self._queue.cancel(transaction, account, job)
            if cancelled is None:
                return None
            await self._owners.ended(transaction, cancelled.ended)
            if cancelled.job.is_cancelling:
                await self._owners.stopping(transaction, cancelled.job)
            await admission.release_jobs(transaction, cancelled.released)
        return cancelled.job

    async def cancel_batch(self, account: AccountId | None, batch: BatchId) -> int | None:
        """Cancel a batch's open jobs; return how many, or None if the account has none such."""
        count = 0
        while True:
            async with self._store.transaction() as transaction:
                cancelled = await self._queue.cancel_batch(transaction, account, batch)
                if cancelled is None:
                    return None
                await self._owners.ended(transaction, cancelled.ended)
                await admission.release_jobs(transaction, cancelled.released)
            # Until a round finds nothing: the worker that reads the batch in may add jobs
            # meanwhile. Later it sees the cancellation, and cancels what it added itself.
            if not cancelled.count:
                return count
            count += cancelled.count

    async def retry(self, job: ClaimedJob, failure: JobFailure) -> JobState:
        """Requeue a job, or fail it for good; raise LeaseLost if another keeper has the claim."""
        async with self._store.transaction() as transaction:
            retried = await self._queue.retry(transaction, job.id, job.epoch, failure)
            await self._owners.ended(transaction, retried.ended)
            await admission.release_jobs(transaction, retried.released)
        return retried.state

    async def sweep(self) -> Swept:
        """Sweep jobs that no keeper has a claim to; call again at once while `is_full`."""
        async with self._store.transaction() as transaction:
            swept = await self._queue.sweep(transaction)
            await self._owners.ended(transaction, swept.ended)
            await admission.release_jobs(transaction, swept.released)
        return swept

    async def delete_old(self) -> int:
        """Delete jobs past their retention, and their stored objects; return how many jobs."""
        async with self._store.transaction() as transaction:
            old = await self._queue.find_old(transaction)
        # Objects go before rows: after a kill in between, the rows still name them. Outside of a
        # transaction: deleting thousands may exceed its time limit, and would never complete.
        await self._values.delete([name for names in old.values() for name in names])
        async with self._store.transaction() as transaction:
            await self._queue.delete(transaction, old)
        return len(old)

    async def delete(self, account: AccountId, job: JobId) -> None:
        """Delete a job that has ended, with its objects."""
        async with self._store.transaction() as transaction:
            names = await self._queue.objects_of(transaction, account, job)
        if names is not None:
            await self._values.delete(names)
            async with self._store.transaction() as transaction:
                await self._queue.delete(transaction, [job])

    async def forget(self, account: AccountId) -> None:
        """Cancel an account's open jobs, and delete its ended ones with their objects.

        Jobs that run now are marked, and their keepers end them soon.
        """
        for state in (JobState.QUEUED, JobState.RUNNING):
            await self._cancel_all(JobQuery(account=account, state=state))
        while True:
            async with self._store.transaction() as transaction:
                ended = await self._queue.find_ended(transaction, account)
            if not ended:
                return
            await self._values.delete([name for names in ended.values() for name in names])
            async with self._store.transaction() as transaction:
                await self._queue.delete(transaction, ended)

    async def _cancel_all(self, query: JobQuery) -> None:
        while True:
            async with self._store.transaction() as transaction:
                jobs = await self._queue.list_jobs(transaction, query)
            if not jobs:
                return
            for job in jobs:
                await self.cancel(job.account, job.id)
            query = msgspec.structs.replace(query, after=jobs[-1].id)

    async def find(self, account: AccountId | None, job: JobId) -> Job | None:
        """Return one job; with `account` None, of any account."""
        async with self._store.transaction() as transaction:
            return await self._queue.find(transaction, account, job)

    async def result_of(self, job: Job) -> bytes:
        """Return a job's whole chat completion, wherever it is kept."""
        return await self._values.get(job.account, job.id, job.result_object, job.result)

    async def payload_of(self, job: ClaimedJob) -> bytes:
        """Return the chat request of a job that is to be run, wherever it is kept."""
        return await self._values.get(job.account, job.id, job.payload_object, job.payload)

    async def _submit(
        self,
        transaction: Transaction,
        submission: Submission,
        jobs: Sequence[NewJob],
        beside: Beside | None,
    ) -> Submitted:
        contracts = {admission.contract_of(job.ticket.contract) for job in jobs} - {""}
        limits = await admission.find_money_limits(transaction, submission.account, contracts)
        if limits:
            jobs = [_limited(job, limits, submission.key) for job in jobs]
        submitted = await self._queue.submit(transaction, submission, jobs)
        if beside is not None:
            await beside(transaction, submitted)
        if limits:
            held = [
                held_by(submission.account, submission.key, job.id, job.ticket)
                for job in jobs
                if job.id in submitted.new
            ]
            moment = admission.Moment(self._clock.now(), self._lease_return_seconds)
            try:
                await admission.hold_jobs(transaction, limits, held, moment)
            except OverLimit as refused:
                _mark(refused, jobs)
                raise
        self._log(submission, [job for job in jobs if job.id in submitted.new])
        return submitted

    def _log(self, submission: Submission, jobs: Sequence[NewJob]) -> None:
        """Log what contracts changed of new jobs, before the transaction with them commits."""
        for job in jobs:
            if job.decisions:
                decided = DecidedRequest(
                    id=job.id,
                    account=submission.account,
                    key=submission.key,
                    workflow=job.ticket.workflow,
                    contract=job.ticket.contract,
                )
                self._decisions.write(decided, job.decisions)


def _mark(refused: OverLimit, jobs: Sequence[NewJob]) -> None:
    """Mark a refusal by a limit that a contract owns, of the jobs that are bound by it."""
    for job in jobs:
        if admission.contract_of(job.ticket.contract) == refused.contract:
            by_owned_limit(refused, job.ticket.contract, job.ticket.workflow)
            return


def _limited(job: NewJob, limits: Sequence[Limit], key: KeyId) -> NewJob:
    counting = admission.limits_counting(limits, key, job.ticket)
    ticket = msgspec.structs.replace(job.ticket, limits=counting)
    return msgspec.structs.replace(job, ticket=ticket)


def _check_labels(jobs: Sequence[NewJob]) -> None:
    """Refuse references and idempotency keys that do not fit into a row."""
    for job in jobs:
        for label in (job.reference, job.idempotency_key):
            if label is not None and ("\0" in label or len(label) > _LABEL_CHARACTERS_MAX):
                raise InvalidRequest(
                    "A reference or an idempotency key is at most"
                    f" {_LABEL_CHARACTERS_MAX} characters, none of them NUL.",
                    param=f"requests.{job.item}",
                )
