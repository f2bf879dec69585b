"""Writes one worker's journal: a series of append-only files that survive kill -9 of any process.

Promises: a record is in the page cache when `open` or `close` returns; a file's disk space is
allocated when it is made, so a full disk refuses new attempts but never loses the end of an open
one; all files together stay within `journal_bytes_max`. A power loss may cost the last seconds.
"""

import contextlib
import fcntl
import logging
import mmap
import os
import re
from pathlib import Path
from typing import Final

from penstock.errors import JournalFull
from penstock.metering.journal_format import (
    CLOSE_BYTES_MAX,
    CLOSED,
    DECIDED,
    HEADER_BYTES,
    OPENED,
    frame,
)
from penstock.metering.settings import MeteringSettings
from penstock.metering.usage_slots import UsageSlots

SEGMENT: Final = "{:08d}.journal"
SLOTS: Final = "slots"
# How many written bytes may stay in this process's memory; a file has 16 MB by default.
_MAPPED_BYTES: Final = 2**20
# The format of the journals that this release writes, and the suffix of their folders. Format 1 has
# no suffix, format 3 has decisions. Older releases ignore folders with a suffix beyond their own.
FORMAT: Final = 3
_NAME: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.([0-9]{1,4}))?")

logger = logging.getLogger(__name__)


class Journal:
    """Journal in a folder named after its worker, which holds a lock beside it while it lives."""

    def __init__(self, folder: Path, holder: str, settings: MeteringSettings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.holder = holder
        self.folder = folder / f"{holder}.{FORMAT}"
        self._settings = settings
        # Locked before the folder exists, because any worker may adopt a folder that is not locked.
        lock = take_lock(self.folder)
        if lock is None:
            raise JournalFull(f"The journal {holder} belongs to a process that lives.")
        self._lock = lock
        self.folder.mkdir()
        try:
            self.slots = UsageSlots.make(self.folder / SLOTS, settings.open_max)
            self._segment = _make(self.folder / SEGMENT.format(1), settings.segment_bytes)
        except OSError:
            # The disk is full: repeated failing starts must not each leave files behind.
            self._give_back()
            raise
        self._size = settings.segment_bytes
        self._number = 1
        self._files = 1
        self._spare: mmap.mmap | None = None
        self._at = 0
        self._mapped_from = 0
        self._open = 0
        self.refused = 0

    def take_slot(self) -> int:
        """Take a slot for an attempt about to be opened; raise JournalFull if none is free."""
        try:
            return self.slots.take()
        except JournalFull:
            self.refused += 1
            raise

    def open(self, slot: int, text: bytes) -> None:
        """Write an opening record and reserve room for its closing one, or raise JournalFull."""
        open_now = self._open + 1
        self._need_room(text, open_now)
        self._append(frame(OPENED, slot, text))
        self._open = open_now

    def decide(self, text: bytes) -> None:
        """Write a decision's record, or raise JournalFull; open attempts keep their room."""
        self._need_room(text, self._open)
        self._append(frame(DECIDED, 0, text))

    def close(self, slot: int, text: bytes) -> None:
        """Write a closing record, into the room that `open` reserved."""
        framed = frame(CLOSED, slot, text)
        assert len(framed) <= CLOSE_BYTES_MAX, "a closing record outgrew its room"
        self._append(framed)
        self._open -= 1

    def make_spare(self) -> None:
        """Make the next file in advance, unless it exists or would exceed `journal_bytes_max`."""
        if self._spare is not None:
            return
        size = self._settings.segment_bytes
        if self.bytes_held() + size > self._settings.journal_bytes_max:
            return
        try:
            self._spare = _make(self.folder / SEGMENT.format(self._number + 1), size)
        except OSError as failed:
            fields = {"action": "journal_full", "reason": failed.strerror}
            logger.error("no room for the journal", extra=fields)  # noqa: TRY400 - no traceback: the disk is full

    def _need_room(self, text: bytes, open_attempts: int) -> None:
        """Have room for a record and the closing ones of open attempts, or raise JournalFull."""
        if self._spare is None:
            left = self._size - self._at - HEADER_BYTES
            if left < len(text) + open_attempts * CLOSE_BYTES_MAX:
                self._need_spare()

    def _need_spare(self) -> None:
        self.make_spare()
        if self._spare is None:
            self.refused += 1
            raise JournalFull

    def bytes_held(self) -> int:
        """Return the size of all files of this journal."""
        # The folder cannot be listed without a free descriptor; then the last count is used.
        with contextlib.suppress(OSError):
            self._files = sum(1 for _ in self.folder.glob("*.journal"))
        return self._files * self._settings.segment_bytes

    @property
    def bytes_max(self) -> int:
        """The size of all files at which requests are refused."""
        return self._settings.journal_bytes_max

    @property
    def is_past_half(self) -> bool:
        return self._at > len(self._segment) // 2

    def remove(self) -> None:
        """Delete the drained journal of an ending worker."""
        self._close_files()
        self._give_back()

    def leave(self) -> None:
        """Close and unlock the journal of an ending worker, so that another worker adopts it."""
        self._close_files()
        os.close(self._lock)

    def _close_files(self) -> None:
        self._segment.close()
        if self._spare is not None:
            self._spare.close()
        self.slots.close()

    def _give_back(self) -> None:
        # Unlocked last, so that no worker adopts a journal that is being deleted.
        remove_journal(self.folder)
        os.close(self._lock)

    def _append(self, framed: bytes) -> None:
        end = self._at + len(framed)
        if end > self._size:
            assert self._spare is not None, "there was no room for what was promised room"
            self._segment.close()
            self._segment, self._spare = self._spare, None
            self._number += 1
            self._at, end = 0, len(framed)
            self._mapped_from = 0
        # The map's own position equals `_at`, because only this method writes.
        self._segment.write(framed)
        self._at = end
        if end - self._mapped_from >= _MAPPED_BYTES:
            self._unmap_written()

    def _unmap_written(self) -> None:
        """Free the memory of written pages: the kernel has them, and no code here reads them."""
        until = self._at // mmap.PAGESIZE * mmap.PAGESIZE
        self._segment.madvise(mmap.MADV_DONTNEED, self._mapped_from, until - self._mapped_from)
        self._mapped_from = until


def take_lock(folder: Path) -> int | None:
    """Lock a journal until this process ends; return None if another process has the lock."""
    lock = os.open(folder.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def is_journal(folder: Path) -> bool:
    """Return whether this is a worker's journal that this release can read."""
    return 0 < _format_of(folder) <= FORMAT and folder.is_dir()


def is_newer_journal(folder: Path) -> bool:
    """Return whether this is a journal of a later release, which only that release may adopt."""
    return _format_of(folder) > FORMAT and folder.is_dir()


def holder_of(folder: Path) -> str:
    """Return the id of the worker that wrote a journal."""
    return folder.stem


def _format_of(folder: Path) -> int:
    """Return the format of a journal, 0 if the path is not a journal."""
    name = _NAME.fullmatch(folder.name)
    return 0 if name is None else int(name[1] or 1)


def remove_journal(folder: Path) -> None:
    """Delete a journal and its lock, which the caller holds."""
    # Sorted, so `slots` is deleted last: open attempts in the other files need it.
    for path in sorted(folder.iterdir()):
        path.unlink(missing_ok=True)
    folder.rmdir()
    remove_lock(folder)


def remove_lock(folder: Path) -> None:
    """Delete a lock that the caller holds. No later journal has its name: ids are not reused."""
    folder.with_suffix(".lock").unlink(missing_ok=True)


def _make(path: Path, size: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)
