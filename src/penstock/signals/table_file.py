"""The file behind the load table: its layout, its creation, and the locks of its columns.

A file of unexpected size or header is replaced by a new one; workers that still map the old file
then count as another host, whose claims arrive by message.
"""

import fcntl
import mmap
import os
import secrets
import struct
from pathlib import Path
from typing import Final

_MAGIC: Final = b"penload1"
_HEADER: Final = struct.Struct("8sQQ16s")
# One CPU cache line per slot, so that two workers never write to the same line.
_SLOT_BYTES: Final = 64
SLOT_WORDS: Final = _SLOT_BYTES // 8
_FILE: Final = "loads"
_LOCK: Final = "loads.lock"
_COLUMN_LOCK: Final = "column.{}.lock"


class Form:
    """The file's layout in 8-byte words: header, columns, directory, slots."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.columns = columns
        self.columns_at = SLOT_WORDS
        # The directory has two halves: each row's replica, and when the row was last in use.
        self.names_at = self.columns_at + columns * SLOT_WORDS
        self.used_at = self.names_at + rows
        end = self.used_at + rows
        self.slots_at = end + -end % SLOT_WORDS
        # One slot more than columns, because rows a power of two apart would all share the same
        # CPU cache sets.
        self.row_words = (columns + 1) * SLOT_WORDS
        self.size_bytes = (self.slots_at + rows * self.row_words) * 8


class TableFile:
    """The mapped file and the lock of one column. Raises OSError if either is unavailable."""

    def __init__(self, folder: Path, form: Form) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.form = form
        self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            self.column, self._column_lock = _take_column(folder, form.columns)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            try:
                self.map = _open_map(folder / _FILE, form) or _make_map(folder / _FILE, form)
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        except OSError:
            self._close_locks()
            raise
        self.host: str = _HEADER.unpack_from(self.map)[3].hex()

    def try_lock(self) -> bool:
        """Lock the directory; return False if another worker holds the lock."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def unlock(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        self.map.close()
        self._close_locks()

    def _close_locks(self) -> None:
        os.close(self._lock)
        if hasattr(self, "_column_lock"):
            os.close(self._column_lock)


def _take_column(folder: Path, columns: int) -> tuple[int, int]:
    """Lock the lowest free column. The kernel releases the lock when the worker dies."""
    for column in range(columns):
        lock = os.open(folder / _COLUMN_LOCK.format(column), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            return column, lock
    raise OSError(f"all {columns} columns are taken: raise signals.workers_max")


def _open_map(path: Path, form: Form) -> mmap.mmap | None:
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(file).st_size != form.size_bytes:
            return None
        found = mmap.mmap(file, form.size_bytes)
    finally:
        os.close(file)
    if _HEADER.unpack_from(found)[:3] == (_MAGIC, form.rows, form.columns):
        return found
    found.close()
    return None


def _make_map(path: Path, form: Form) -> mmap.mmap:
    """Create the file under another name first, so that no worker maps an incomplete file."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        # Allocated now, because on a full disk the first write to a page would kill the process.
        os.posix_fallocate(file, 0, form.size_bytes)
        made = mmap.mmap(file, form.size_bytes)
    except OSError:
        new.unlink()
        raise
    finally:
        os.close(file)
    _HEADER.pack_into(made, 0, _MAGIC, form.rows, form.columns, secrets.token_bytes(16))
    new.replace(path)
    return made
