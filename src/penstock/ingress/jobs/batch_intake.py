"""The loop that advances batches: submits their input lines as jobs, and writes their outputs.

Each gateway worker runs one. One worker at a time has the claim to a batch; if that worker dies,
another continues where it stopped. A line that already is a job is not submitted again.
"""

import asyncio
import logging
from typing import Protocol

import msgspec

from penstock.clock import Clock
from penstock.errors import (
    AccountBlocked,
    Error,
    InvalidRequest,
    LeaseLost,
    NotFound,
    OverLimit,
    QueueFull,
    StoreUnavailable,
    Unauthenticated,
)
from penstock.ingress.jobs.batch_reading import BatchReading, ReadingRooms, refused_line
from penstock.ingress.settings import IngressSettings
from penstock.queue import Batches
from penstock.queue.batch_files import Closing, FileBatch, FileBatches
from penstock.queue.batch_output import CANCELLED, EXPIRED, BatchWriter
from penstock.queue.files import StoredFile
from penstock.records.account import Key, KeyId
from penstock.store import Transaction
from penstock.wire.resources.batches import BatchError, BatchStatus, LineError

logger = logging.getLogger(__name__)


class Keys(Protocol):
    """Finds keys; the port that policy satisfies."""

    def find_by_id(self, id: KeyId) -> Key | None: ...


class IntakeRooms(msgspec.Struct, frozen=True):
    """The parts of other rooms that the intake uses."""

    reading: ReadingRooms
    keys: Keys
    writer: BatchWriter


class BatchIntake:
    """Advances batches one step at a time; `run` loops until cancelled."""

    def __init__(self, rooms: IntakeRooms, settings: IngressSettings, clock: Clock) -> None:
        self._rooms = rooms
        self._store = rooms.reading.store
        self._settings = settings
        self._now = clock.now
        self._batches = FileBatches()
        self._rows = Batches()
        self.failures = 0

    async def run(self) -> None:
        while True:
            has_worked = False
            try:
                has_worked = await self.work_once()
            except (StoreUnavailable, LeaseLost):
                logger.warning("batch waits", extra={"action": "batch_waits"})
            except Exception:
                # Caught here so that one batch that cannot be read does not stop the others.
                self.failures += 1
                logger.exception("batch crashed", extra={"action": "batch_crashed"})
            if not has_worked:
                await asyncio.sleep(self._settings.batch_poll_seconds)

    async def work_once(self) -> bool:
        """Advance one batch by a step; return False if no batch is waiting."""
        async with self._store.transaction() as tx:
            batch = await self._batches.claim(tx, self._settings.batch_lease_seconds)
        if batch is None:
            return False
        if batch.is_read:
            await self._rooms.writer.write(batch)
        else:
            await self._read_in(batch)
        return True

    async def _read_in(self, batch: FileBatch) -> None:
        try:
            key = self._key(batch)
            file = await self._rooms.reading.files.find(batch.account, batch.input_file)
            self._check_length(file)
            reading = BatchReading(self._rooms.reading, self._settings, batch, key)
            await reading.read(file, self._why_not(batch))
        except (QueueFull, OverLimit):
            # No room in the queue for the next line, or no budget: the batch pauses.
            pause = self._settings.batch_pause_seconds
            async with self._store.transaction() as tx:
                await self._batches.release(tx, batch, is_read=False, pause_seconds=pause)
        except (InvalidRequest, NotFound, Unauthenticated, AccountBlocked) as refused:
            await self._give_up(batch, refused)
        else:
            await self._seal(batch)

    async def _seal(self, batch: FileBatch) -> None:
        async with self._store.transaction() as tx:
            is_cancelling = await self._end_reading(tx, batch)
        if is_cancelling:
            # The cancellation missed the jobs of lines that were being submitted then.
            await self._rooms.reading.desk.cancel_batch(batch.account, batch.id)
        logger.info("batch read", extra={"action": "batch_read", "batch": batch.id})

    async def _end_reading(self, tx: Transaction, batch: FileBatch) -> bool:
        await self._batches.release(tx, batch, is_read=True)
        await self._rows.seal(tx, batch.id)
        return await self._batches.is_cancelling(tx, batch.id)

    async def _give_up(self, batch: FileBatch, why: Error) -> None:
        """Fail a batch whose file cannot be read; only its rest if some lines are jobs."""
        async with self._store.transaction() as tx:
            now = await self._batches.find(tx, None, batch.id)
            assert now is not None, "its row is kept until it has ended"
            if now.jobs:
                number = await self._batches.first_unread(tx, batch.id)
                rest = [refused_line(number, None, why)]
                lease = self._settings.batch_lease_seconds
                await self._batches.took(tx, batch, number + 1, rest, lease)
                await self._end_reading(tx, batch)
            else:
                error = BatchError(why.code, why.message, param=why.param)
                closing = Closing(BatchStatus.FAILED, errors=(error,))
                await self._batches.close(tx, batch, closing)
                await self._rows.seal(tx, batch.id)
                await self._rows.end(tx, batch.id)
        logger.info("batch refused", extra={"action": "batch_refused", "batch": batch.id})

    def _key(self, batch: FileBatch) -> Key:
        key = self._rooms.keys.find_by_id(batch.key)
        if key is None:
            # The key was made a moment ago, through another worker.
            raise StoreUnavailable("The key of this batch is not known here yet.")
        if key.is_revoked or key.account is None:
            raise Unauthenticated("The API key that made this batch is revoked.")
        if key.account.is_blocked:
            raise AccountBlocked
        return key

    def _check_length(self, file: StoredFile) -> None:
        if not file.bytes:
            raise InvalidRequest("The input file is empty.", param="input_file_id")
        if file.lines > self._settings.batch_lines_max:
            raise InvalidRequest(
                f"The input file has {file.lines} lines; at most"
                f" {self._settings.batch_lines_max} are allowed.",
                param="input_file_id",
            )

    def _why_not(self, batch: FileBatch) -> LineError | None:
        """Return why the remaining lines must not run, or None."""
        if batch.is_cancelling:
            return CANCELLED
        return EXPIRED if batch.deadline <= self._now() else None
