"""Asks the queue for `penstock jobs`, on an open store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.app.job_rooms import desk_rooms, job_desk
from penstock.cli.account_names import account_names, find_account_if_given
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.job_watch import Backlog, WatchRow, batch_row
from penstock.clock import Clock
from penstock.config import Config
from penstock.errors import NotFound
from penstock.ingress.jobs.job_answers import JobLookup, SeenJob
from penstock.queue import Batch, JobQuery
from penstock.records.job import BatchId, Job, JobId
from penstock.records.model import ModelId
from penstock.store import Objects, Sealing, Store, Transaction
from penstock.wire.resources.batches import batch_of


class QueueNotes(NamedTuple):
    """What people are told beside a job: its account's name, and whether its model is paused."""

    names: Mapping[str, str]
    paused: frozenset[ModelId]


class QueueDesk:
    """The rooms that these commands need, on an open store."""

    def __init__(self, store: Store, config: Config, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        rooms = desk_rooms(
            store, Objects(config.store, Sealing(store, config.store, clock)), config
        )
        self._queue, self._batches = rooms.queue, rooms.batches
        self._lookup = JobLookup(store, self._queue)
        self._jobs = job_desk(rooms, config, clock)

    async def page(
        self, account: str | None, query: JobQuery
    ) -> tuple[tuple[Sequence[Job], bool], QueueNotes]:
        """Return a page of an account's jobs, or of all, and what to say about them."""
        owner = await find_account_if_given(self._store, account)
        page = await self._lookup.page(msgspec.structs.replace(query, account=owner))
        return page, await self._notes()

    async def find(self, id: str) -> SeenJob | Batch:
        """Find a job by its id, or a batch by the id that its caller knows."""
        seen = await self._lookup.find(None, JobId(id))
        found = seen or await self._find_batch(id)
        if found is None:
            raise NotFound(f"There is no job or batch {id}.")
        return found

    async def cancel(self, id: str) -> SeenJob | Batch:
        found = await self.find(id)
        if isinstance(found, Batch):
            await self._jobs.cancel_batch(None, found.id)
        else:
            await self._jobs.cancel(None, found.job.id)
        return await self.find(id)

    async def noted(
        self, question: Awaitable[SeenJob | Batch]
    ) -> tuple[SeenJob | Batch, QueueNotes]:
        """Return an answer, and what to say about it."""
        return await question, await self._notes()

    async def _notes(self) -> QueueNotes:
        names = await account_names(self._store)
        async with self._store.transaction() as transaction:
            return QueueNotes(names, await self._paused(transaction))

    async def _find_batch(self, id: str) -> Batch | None:
        batch = batch_of(id)
        if batch is None:
            return None
        async with self._store.transaction() as transaction:
            return await self._batches.find(transaction, None, BatchId(batch))

    async def rounds(
        self, model: str | None, batch: str | None, seconds: float
    ) -> AsyncIterator[list[WatchRow]]:
        """Yield rows at intervals until no job is open; once if `seconds` is 0."""
        backlog = Backlog()
        while True:
            rows = await self._look(backlog, model, batch)
            yield rows
            if not seconds or all(row.is_done for row in rows):
                return
            await asyncio.sleep(seconds)

    async def _look(self, backlog: Backlog, model: str | None, batch: str | None) -> list[WatchRow]:
        async with self._store.transaction() as transaction:
            stats = await self._queue.stats(transaction)
            paused = await self._paused(transaction)
            if batch is None:
                rows = backlog.rows(stats, paused, self._clock.now())
                return [row for row in rows if model in (None, row.name)]
            found = await self._batches.find(transaction, None, BatchId(batch))
        if found is None:
            raise CommandFailed(f"There is no batch {batch}.")
        of_model = None if found.model is None else stats.get(found.model)
        return [batch_row(found, of_model, paused, self._clock.now())]

    async def _paused(self, transaction: Transaction) -> frozenset[ModelId]:
        """Return the models of which no job begins."""
        controls = await self._queue.controls(transaction)
        return frozenset(model for model, control in controls.items() if control.is_stopped)
