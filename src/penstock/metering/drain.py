"""Copies journals into Postgres: the worker's own periodically, dead workers' once found.

A journal file is deleted only after its rows are committed, and writing a batch twice is harmless:
so a kill at any moment, or a commit whose reply is lost, neither loses nor duplicates usage.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from penstock.errors import StoreUnavailable
from penstock.metering.journal import (
    Journal,
    holder_of,
    is_journal,
    is_newer_journal,
    remove_journal,
    remove_lock,
    take_lock,
)
from penstock.metering.journal_reader import JournalReader, JournalRows
from penstock.metering.ledger import Ledger
from penstock.metering.refusals import Refusals
from penstock.metering.settings import MeteringSettings
from penstock.metering.unwritable import put_aside

# Returns the leases of a worker that has ended, after its journal's usage is in Postgres.
Release = Callable[[str], Awaitable[object]]

# Classes of Postgres errors that a row causes: invalid data, a constraint, a size limit.
_ROW_STATES: Final = ("22", "23", "54")

logger = logging.getLogger(__name__)


class Drain:
    """Drains journals. Keep `run` running; call `finish` after the worker's last request."""

    def __init__(
        self,
        journal: Journal,
        ledger: Ledger,
        refusals: Refusals,
        settings: MeteringSettings,
        release: Release,
    ) -> None:
        self._journal = journal
        self._ledger = ledger
        self._refusals = refusals
        self._settings = settings
        self._release = release
        self._reader = JournalReader(journal.folder)
        self._pending = JournalRows()
        # Journals of later releases that are already reported.
        self._newer: set[str] = set()
        self.rows_written = 0
        self.rows_unwritable = 0
        self.failures = 0
        self.adopted = 0

    async def run(self) -> None:
        """Write closed attempts to Postgres and look for dead workers' journals, forever."""
        pause = self._settings.drain_seconds
        until_adoption = self._settings.adopt_seconds
        while True:
            await asyncio.sleep(pause)
            until_adoption -= pause
            try:
                if self._journal.is_past_half:
                    self._journal.make_spare()
                await self.empty()
                if until_adoption <= 0:
                    until_adoption = self._settings.adopt_seconds
                    await self.adopt()
                pause = self._settings.drain_seconds
            except StoreUnavailable:
                self.failures += 1
                logger.warning("journal not drained", extra={"action": "drain_waits"})
                pause = min(pause * 2, self._settings.drain_retry_seconds_max)
            except Exception:
                # No failure may end this loop, because every request needs room in the journal.
                self.failures += 1
                logger.exception("journal not drained", extra={"action": "drain_failed"})
                pause = min(pause * 2, self._settings.drain_retry_seconds_max)

    async def finish(self) -> None:
        """Drain and remove the ending worker's journal, or leave it for another worker to adopt."""
        try:
            async with asyncio.timeout(self._settings.last_drain_seconds):
                await self.empty()
                is_done = not self._reader.has_open
                if is_done:
                    await self._release(self._journal.holder)
        except (StoreUnavailable, TimeoutError):
            is_done = False
        self._reader.close()
        if is_done:
            self._journal.remove()
            return
        logger.warning("journal left for the next start", extra={"action": "journal_left"})
        self._journal.leave()

    async def empty(self) -> None:
        """Write all attempts that are closed when called.

        Attempts closed meanwhile wait for the next call: under load there are always more, and
        waiting makes batches larger.
        """
        holder = self._journal.holder
        rows_max = self._settings.drain_rows_max
        is_more = True
        while is_more and (rows := self._pending or self._reader.read(rows_max)):
            self._pending = rows
            await self._write(holder, rows)
            self._pending = JournalRows()
            self._reader.done()
            is_more = len(rows) >= rows_max
        await self._refusals.flush()

    async def adopt(self) -> None:
        """Drain every journal on this host whose worker is dead, and return its leases."""
        self._report_newer()
        for folder in _journals(self._journal.folder.parent):
            if folder == self._journal.folder:
                continue
            try:
                await self._adopt_one(folder)
            except StoreUnavailable:
                raise
            except Exception:
                # An unreadable journal stays in place: it must delay neither the other journals
                # nor a worker's start.
                self.failures += 1
                fields = {"action": "adoption_failed", "journal": folder.name}
                logger.exception("journal not adopted", extra=fields)

    def _report_newer(self) -> None:
        """Log each journal of a later release once. A gateway of that release will adopt it."""
        places = self._journal.folder.parent.iterdir()
        newer = {path.name for path in places if is_newer_journal(path)}
        for name in sorted(newer - self._newer):
            fields = {"action": "journal_newer", "journal": name}
            logger.warning("journal of a later release is left alone", extra=fields)
        self._newer = newer

    async def _adopt_one(self, folder: Path) -> None:
        lock = take_lock(folder)
        if lock is None:
            return
        try:
            if not is_journal(folder):
                # Another worker has adopted and removed the journal; `take_lock` made a new lock.
                remove_lock(folder)
                return
            reader = JournalReader(folder)
            try:
                await self._drain_orphan(reader, holder_of(folder))
            finally:
                reader.close()
            remove_journal(folder)
        finally:
            os.close(lock)

    async def _drain_orphan(self, reader: JournalReader, holder: str) -> None:
        rows_max = self._settings.drain_rows_max
        count = 0
        while rows := reader.read(rows_max):
            await self._write(holder, rows)
            count += len(rows)
            reader.done()
        left = reader.left_open()
        for start in range(0, len(left), rows_max):
            await self._write(holder, JournalRows(left[start : start + rows_max]))
        await self._release(holder)
        self.adopted += 1
        fields = {"action": "journal_adopted", "journal": holder, "closed": count}
        logger.warning("journal adopted", extra={**fields, "interrupted": len(left)})

    async def _write(self, holder: str, rows: JournalRows) -> None:
        if await self._refusal(holder, rows) is None:
            return
        # A day's partition may be missing because the database was restored from a backup.
        self._ledger.forget_days()
        await self._write_apart(holder, rows)

    async def _write_apart(self, holder: str, rows: JournalRows) -> None:
        """Write rows by bisection, so that one bad row does not block the others."""
        refusal = await self._refusal(holder, rows)
        if refusal is None:
            return
        if len(rows) == 1:
            self.rows_unwritable += 1
            put_aside(self._journal.folder.parent, rows, refusal)
            return
        for half in rows.halves():
            await self._write_apart(holder, half)

    async def _refusal(self, holder: str, rows: JournalRows) -> Exception | None:
        """Write rows; return the error if it is about the rows themselves, else None."""
        try:
            await self._ledger.write(holder, rows.attempts, rows.decisions)
        except StoreUnavailable:
            raise
        except Exception as refused:
            if not _is_about_rows(refused):
                raise
            return refused
        self.rows_written += len(rows)
        return None


def _is_about_rows(refused: Exception) -> bool:
    """Return whether rows caused the error; if not (a table is missing), they wait for a repair."""
    state: str | None = getattr(refused, "sqlstate", None)
    if state is None:
        # Raised before Postgres got the row: its id contains no time, or no valid day.
        return isinstance(refused, ValueError | ArithmeticError)
    return state[:2] in _ROW_STATES


def _journals(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if is_journal(path))
