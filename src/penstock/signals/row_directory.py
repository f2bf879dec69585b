"""Maps replicas to rows of the load table. Rows that no worker uses go to new replicas.

Reading needs no lock; adding a row takes the file's lock briefly, and does not wait for it.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from penstock.records.replica import ReplicaId
from penstock.signals.table_file import TableFile

# The table has no free row for this replica at the moment.
NO_ROW: Final = -1


class RowDirectory:
    """Holds, for each row, a hash of its replica and when a worker last marked it as in use."""

    def __init__(self, file: TableFile, idle_seconds: float) -> None:
        self._file = file
        self._form = file.form
        self._idle_seconds = idle_seconds
        self._view = memoryview(file.map)
        self._names = self._view.cast("Q")
        self._used: memoryview[float] = self._view.cast("d")

    def find(self, replica: ReplicaId, now: float) -> int | None:
        """Return where the replica's row begins, in words; a new replica gets a row.

        None while another worker adds a row, which may be this one: call again.
        """
        name = _name_of(replica)
        names = self._read_names()
        if name not in names:
            if not self._file.try_lock():
                return None
            try:
                names = self._read_names()
                if name not in names:
                    self._add(name, names, now)
            finally:
                self._file.unlock()
            names = self._read_names()
        if name not in names:
            return NO_ROW
        index = names.index(name)
        self._used[self._form.used_at + index] = now
        return self._form.slots_at + index * self._form.row_words

    def say_use(self, rows: Iterable[tuple[ReplicaId, int]], now: float) -> list[ReplicaId]:
        """Mark rows as in use. Return the replicas that have no row, or have lost theirs."""
        names = self._read_names()
        form, lost = self._form, []
        for replica, row in rows:
            index = (row - form.slots_at) // form.row_words
            if row == NO_ROW or names[index] != _name_of(replica):
                lost.append(replica)
            else:
                self._used[form.used_at + index] = now
        return lost

    def close(self) -> None:
        for view in (self._names, self._used, self._view):
            view.release()

    def _add(self, name: int, names: list[int], now: float) -> None:
        """Put `name` into an empty row, or into the row that has been unused the longest."""
        form = self._form
        if 0 in names:
            index = names.index(0)
        else:
            used = self._used[form.used_at : form.used_at + form.rows].tolist()
            # A time in the future was written before the host rebooted, so it counts as old.
            index = max(range(form.rows), key=lambda row: abs(now - used[row]))
            if abs(now - used[index]) < self._idle_seconds:
                return
        start, size = (form.slots_at + index * form.row_words) * 8, form.row_words * 8
        self._file.map[start : start + size] = bytes(size)
        self._names[form.names_at + index] = name

    def _read_names(self) -> list[int]:
        start = self._form.names_at
        return self._names[start : start + self._form.rows].tolist()


def _name_of(replica: ReplicaId) -> int:
    """Return the hash that represents a replica in the directory; 0 marks an empty row."""
    return int.from_bytes(hashlib.blake2b(replica.encode(), digest_size=8).digest()) or 1
