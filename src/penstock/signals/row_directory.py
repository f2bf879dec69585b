"""Which row of the table is which replica's. Rows that no worker uses go to new replicas.

Reading needs no lock; adding a row takes the file's for a moment, and does not wait for it.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from penstock.records.replica import ReplicaId
from penstock.signals.table_file import TableFile

# The table has no room for this replica, now.
NO_ROW: Final = -1


class RowDirectory:
    """A hash of each row's replica, and when some worker last said that it uses the row."""

    def __init__(self, file: TableFile, idle_seconds: float) -> None:
        self._file = file
        self._form = file.form
        self._idle_seconds = idle_seconds
        self._view = memoryview(file.map)
        self._names = self._view.cast("Q")
        self._used: memoryview[float] = self._view.cast("d")

    def find(self, replica: ReplicaId, now: float) -> int | None:
        """Where the replica's row begins, in words; a row is added for a new one.

        None while another worker is adding a row, perhaps this very one: ask again.
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
        """Keep rows from being given away. Returns the replicas whose rows already were."""
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
        """Into an empty row, or into the one that is longest out of use."""
        form = self._form
        if 0 in names:
            index = names.index(0)
        else:
            used = self._used[form.used_at : form.used_at + form.rows].tolist()
            # A time ahead of ours was written before the host was started again: as good as old.
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
    """What stands for a replica in the directory; 0 is an empty row."""
    return int.from_bytes(hashlib.blake2b(replica.encode(), digest_size=8).digest()) or 1
