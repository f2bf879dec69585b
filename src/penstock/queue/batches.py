"""Batches: jobs that are submitted and queried together. Writes the table `job_batches`.

Code that submits and ends jobs updates the counts in their batch's row. A batch ends when all its
jobs have ended and it is sealed, which means that no more jobs will be added.
"""

from typing import Final

import msgspec

from penstock.queue import job_queries, outbox
from penstock.queue.outbox import Data, NewEvent
from penstock.queue.queries import read_queries
from penstock.records.account import AccountId, KeyId
from penstock.records.job import BatchId, Door, Job
from penstock.records.model import ModelId
from penstock.store import Transaction
from penstock.store.pool import Row

_QUERIES: Final = read_queries("batches.sql")


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch to open. One that is filled in steps stays unsealed until all is submitted."""

    id: BatchId
    account: AccountId
    key: KeyId
    door: Door
    # In seconds since 1970.
    deadline: float
    model: ModelId | None = None
    idempotency_key: str | None = None
    endpoint: str = ""
    completion_window: str = ""
    input_file: str = ""
    metadata: dict[str, str] = {}
    is_sealed: bool = True


class Batch(msgspec.Struct, frozen=True):
    """A batch with the counts of its jobs by state."""

    id: BatchId
    account: AccountId
    key: KeyId
    door: Door
    model: ModelId | None
    # `open` or `ended`.
    state: str
    # In seconds since 1970.
    created_at: float
    deadline: float
    ended_at: float | None
    endpoint: str
    completion_window: str
    input_file: str
    metadata: dict[str, str]
    is_sealed: bool
    is_cancelling: bool
    total: int
    # Jobs that have not ended: waiting or running.
    open_jobs: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    expired: int


class Batches:
    """Opens, seals, reads and ends batches; `Queue` submits and ends their jobs."""

    async def open(self, tx: Transaction, batch: NewBatch) -> BatchId:
        """Add a batch; return its id, or that of the existing one with its idempotency key."""
        added = await tx.execute(_QUERIES["open"], _values(batch))
        if added:
            if batch.door is Door.WORKERS_AI:
                await outbox.add(tx, [_workers_ai_event(batch, "queued")])
            return batch.id
        known = await tx.fetch_one(
            _QUERIES["known"], (batch.id, batch.account, batch.idempotency_key)
        )
        assert known is not None, "what stood in the way is there"
        return BatchId(known[0])

    async def seal(self, tx: Transaction, batch: BatchId) -> bool:
        """Mark that no more jobs will be added, so that the batch may end."""
        return bool(await tx.execute(_QUERIES["seal"], (batch,)))

    async def find(
        self, tx: Transaction, account: AccountId | None, batch: BatchId
    ) -> Batch | None:
        """Return one batch; `account` None finds any account's."""
        row = await tx.fetch_one(_QUERIES["facts"] + _QUERIES["by_id"], (batch, account))
        return None if row is None else _batch_from(row)

    async def items(
        self, tx: Transaction, batch: BatchId, after_item: int, limit: int
    ) -> list[Job]:
        """Return a page of its jobs with their answers, by item; begin with `after_item` -1."""
        return await job_queries.items(tx, batch, after_item, limit)

    async def ready(self, tx: Transaction, door: Door, limit: int) -> list[Batch]:
        """Return, and lock for this transaction, sealed open batches whose jobs have all ended."""
        rows = await tx.fetch(_QUERIES["facts"] + _QUERIES["ready"], (door.value, limit))
        return [_batch_from(row) for row in rows]

    async def end(self, tx: Transaction, *batches: BatchId) -> set[BatchId]:
        """End those of the batches that have no open jobs; return the ones ended by this call."""
        rows = await tx.fetch(_QUERIES["end"], (list(batches),))
        return {BatchId(id) for (id,) in rows}

    async def finalize_ready(self, tx: Transaction, limit: int) -> list[Batch]:
        """End the Workers AI batches whose jobs have all ended, and publish their events."""
        batches = await self.ready(tx, Door.WORKERS_AI, limit)
        if batches:
            await self.end(tx, *(batch.id for batch in batches))
            await outbox.add(tx, [await _told(tx, batch) for batch in batches])
        return batches


def _values(batch: NewBatch) -> tuple[object, ...]:
    return (
        batch.id,
        batch.account,
        batch.key,
        batch.door.value,
        batch.model,
        batch.idempotency_key,
        batch.deadline,
        batch.endpoint,
        batch.completion_window,
        batch.input_file,
        msgspec.json.encode(batch.metadata).decode(),
        batch.is_sealed,
    )


def _batch_from(row: Row) -> Batch:
    return msgspec.convert(dict(zip(Batch.__struct_fields__, row, strict=True)), Batch)


async def _told(tx: Transaction, batch: Batch) -> NewEvent:
    """Return the batch's end event: succeeded if any job has, as each item has its own status."""
    if batch.succeeded or not batch.total:
        return _workers_ai_event(batch, "succeeded")
    failure = await tx.fetch_one(_QUERIES["first_failure"], (batch.id,))
    assert failure is not None, "a batch without a success has failures"
    code, message, status = failure
    return _workers_ai_event(batch, "failed", {"code": code, "message": message, "status": status})


def _workers_ai_event(batch: Batch | NewBatch, what: str, failure: Data | None = None) -> NewEvent:
    data: Data = {"id": batch.id, "model": batch.model, **(failure or {})}
    return NewEvent(batch.account, f"cf.workersAi.model.batch.{what}", data)
