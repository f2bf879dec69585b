"""Batches made from a file of requests: the data they have besides their row in `job_batches`.

Guarantees: one worker at a time holds a batch, by a claim that expires; writes of a worker that
lost its claim are refused (LeaseLost), so a batch is read and closed once, even if workers die.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.errors import LeaseLost
from penstock.queue.outbox import NewEvent, add
from penstock.queue.queries import read_queries
from penstock.records.account import AccountId, KeyId
from penstock.records.job import BatchId
from penstock.store import Transaction
from penstock.wire.resources.batches import BatchError, BatchStatus, public_id

_QUERIES: Final = read_queries("batch_files.sql")
_FIND: Final = f"{_QUERIES['batch']} b.id = %s and (%s::text is null or b.account = %s)"
_LIST: Final = (
    f"{_QUERIES['batch']} b.account = %s and (%s::uuid is null or b.id < %s)"
    " order by b.id desc limit %s"
)


class FileBatch(msgspec.Struct, frozen=True):
    """A file batch with its counts. Times are in seconds since 1970."""

    id: BatchId
    account: AccountId
    key: KeyId
    endpoint: str
    input_file: str
    metadata: dict[str, str]
    created_at: float
    deadline: float
    # Whether each of its lines has become a job or was refused.
    is_read: bool
    is_cancelling: bool
    jobs: int
    open_jobs: int
    succeeded: int
    expired: int
    lines_read: int
    refused: int
    errors: tuple[BatchError, ...]
    output_file: str | None
    error_file: str | None
    output_keep_seconds: int | None
    in_progress_at: float | None
    cancelling_at: float | None
    finalizing_at: float | None
    closed_at: float | None
    outcome: BatchStatus | None
    epoch: int

    @property
    def status(self) -> BatchStatus:
        if self.outcome is not None:
            return self.outcome
        if self.is_cancelling:
            return BatchStatus.CANCELLING
        if self.finalizing_at is not None:
            return BatchStatus.FINALIZING
        return BatchStatus.IN_PROGRESS if self.is_read else BatchStatus.VALIDATING


class RefusedLine(msgspec.Struct, frozen=True):
    """A line that did not become a job, with the reason."""

    item: int
    custom_id: str | None
    code: str
    message: str
    param: str | None
    status: int


class Closing(msgspec.Struct, frozen=True):
    """The outcome and files with which a batch is closed."""

    outcome: BatchStatus
    output_file: str | None = None
    error_file: str | None = None
    errors: tuple[BatchError, ...] = ()


class FileBatches:
    """The only writer of `file_batches` and `refused_lines`. Each call joins a transaction."""

    async def add(self, tx: Transaction, batch: BatchId, output_keep_seconds: int | None) -> None:
        """Add the row that belongs to a job_batches row opened in the same transaction."""
        await tx.execute(
            "insert into file_batches (id, output_keep_seconds) values (%s, %s)",
            (batch, output_keep_seconds),
        )

    async def find(
        self, tx: Transaction, account: AccountId | None, batch: BatchId
    ) -> FileBatch | None:
        row = await tx.fetch_one(_FIND, (batch, account, account))
        return None if row is None else _batch(row)

    async def page(
        self, tx: Transaction, account: AccountId, after: BatchId | None, limit: int
    ) -> list[FileBatch]:
        """Return a page of an account's batches, newest first."""
        return [_batch(row) for row in await tx.fetch(_LIST, (account, after, after, limit))]

    async def cancelling(self, tx: Transaction, batch: BatchId) -> None:
        """Record when cancellation was requested, and make the batch claimable at once."""
        await tx.execute(
            "update file_batches set cancelling_at = coalesce(cancelling_at, now()),"
            " not_before = now() where id = %s and outcome is null",
            (batch,),
        )

    async def is_cancelling(self, tx: Transaction, batch: BatchId) -> bool:
        row = await tx.fetch_one("select is_cancelling from job_batches where id = %s", (batch,))
        return row is not None and bool(row[0])

    async def claim(self, tx: Transaction, lease_seconds: float) -> FileBatch | None:
        """Claim a batch whose input must be read or whose answers must be written, or None."""
        row = await tx.fetch_one(_QUERIES["claim"], (lease_seconds,))
        return None if row is None else await self.find(tx, None, BatchId(row[0]))

    async def renew(self, tx: Transaction, batch: FileBatch, lease_seconds: float) -> None:
        count = await tx.execute(_QUERIES["renew"], (lease_seconds, batch.id, batch.epoch))
        _held(count)

    async def took(
        self,
        tx: Transaction,
        batch: FileBatch,
        lines_read: int,
        refused: Sequence[RefusedLine],
        lease_seconds: float,
    ) -> None:
        """Record the number of lines read, store refused lines, and renew the claim."""
        if refused:
            columns = zip(*map(_storable, refused), strict=True)
            await tx.execute(_QUERIES["refuse"], (batch.id, *map(list, columns), batch.id))
        figures = (lines_read, lease_seconds, batch.id, batch.id, batch.epoch)
        _held(await tx.execute(_QUERIES["took"], figures))

    async def release(
        self, tx: Transaction, batch: FileBatch, *, is_read: bool, pause_seconds: float = 0.0
    ) -> None:
        """Give up the claim; another worker may continue after a pause."""
        figures = (pause_seconds, is_read, batch.id, batch.epoch)
        _held(await tx.execute(_QUERIES["release"], figures))

    async def close(self, tx: Transaction, batch: FileBatch, closing: Closing) -> None:
        """Close the batch and publish its event."""
        errors = msgspec.json.encode(closing.errors).decode()
        values = (closing.outcome.value, closing.output_file, closing.error_file, errors)
        _held(await tx.execute(_QUERIES["close"], (*values, batch.id, batch.epoch)))
        event = NewEvent(batch.account, f"batch.{closing.outcome}", {"id": public_id(batch.id)})
        await add(tx, [event])

    async def first_unread(self, tx: Transaction, batch: BatchId) -> int:
        """Return the first line after all lines that are jobs or were noted as read."""
        row = await tx.fetch_one(_QUERIES["first_unread"], (batch,))
        assert row is not None, "its row is kept until it has ended"
        return int(row[0])

    async def refused_lines(
        self, tx: Transaction, batch: BatchId, after_item: int, limit: int
    ) -> list[RefusedLine]:
        rows = await tx.fetch(_QUERIES["refused_lines"], (batch, after_item, limit))
        return [RefusedLine(*row) for row in rows]


def _storable(line: RefusedLine) -> tuple[object, ...]:
    """Remove NULs, which a refused line may contain and Postgres cannot store in text."""
    values = msgspec.structs.astuple(line)
    return tuple(each.replace("\0", "") if isinstance(each, str) else each for each in values)


def _held(rows: int) -> None:
    if not rows:
        raise LeaseLost("This batch is another worker's now, or has ended.")


def _batch(row: tuple[Any, ...]) -> FileBatch:
    return msgspec.convert(dict(zip(FileBatch.__struct_fields__, row, strict=True)), FileBatch)
