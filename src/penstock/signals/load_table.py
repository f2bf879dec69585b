"""The load of one host's workers in shared memory, visible to all of them at once.

Each replica and worker has a slot, which only that worker writes (a row given to another replica is
zeroed). Slots have no locks: a torn read is at worst a wrong number for one decision. `write` and
`others` never raise. Workers count a peer only while it calls `beat`.
"""

import logging
import mmap
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.records.host_load import HostLoad, HostTable
from penstock.records.replica import ReplicaId
from penstock.signals.row_directory import NO_ROW, RowDirectory
from penstock.signals.settings import SignalsSettings
from penstock.signals.table_file import SLOT_WORDS, Form, TableFile

# How many times per `row_idle_seconds` a worker marks its rows as in use.
_USE_TIMES: Final = 4
# Larger than any valid sum. A sum of damaged slots, such as NaN, does not compare below it.
_SANE_MAX: Final = 1e15

_SLOT: Final = struct.Struct("<7d")
logger = logging.getLogger(__name__)


def open_table(settings: SignalsSettings, now: float) -> "LoadTable | None":
    """Open this worker's column of the host's table; if that fails, log it and return None."""
    if settings.transport == "off":
        return None
    try:
        file = TableFile(Path(settings.folder), Form(settings.replicas_max, settings.workers_max))
    except OSError as wrong:
        extra = {"action": "load_table_unusable", "error": str(wrong)}
        logger.warning("load table not usable", extra=extra)
        return None
    return LoadTable(file, settings, now)


class _Seen:
    """The other workers' slots of a replica: their position, last contents, and sum."""

    def __init__(self, span: slice) -> None:
        self.span = span
        self.data = b""
        self.load: HostLoad | None = None


class LoadTable(HostTable):
    """One worker's column. Call `beat` several times a second, or other workers ignore it."""

    def __init__(self, file: TableFile, settings: SignalsSettings, now: float) -> None:
        self.host = file.host
        self.column = file.column
        # How often a replica had no row, and how often a sum of slots was not a valid load.
        self.missing = 0
        self.damaged = 0
        self._file = file
        self._map = file.map
        self._form = file.form
        self._view = memoryview(file.map)
        self._floats: memoryview[float] = self._view.cast("d")
        self._directory = RowDirectory(file, settings.row_idle_seconds)
        self._silence_seconds = settings.silence_seconds
        self._idle_seconds = settings.row_idle_seconds
        self._rows: dict[ReplicaId, int] = {}
        self._others: tuple[int, ...] = ()
        self._seen: dict[ReplicaId, _Seen] = {}
        self._own_bytes = self.column * SLOT_WORDS * 8
        # Loads that the next beat writes: no other worker is alive to read them earlier.
        self._unwritten: dict[ReplicaId, HostLoad] = {}
        self._now = now
        self._use_said_at = now
        self._take_column()
        self.beat(now)

    def write(self, replica: ReplicaId, load: HostLoad) -> None:
        """Publish this worker's load at a replica; at the next beat if no other worker is alive."""
        row = self._rows.get(replica)
        if row is None:
            row = self._find_row(replica)
        if row == NO_ROW:
            return
        if self._others:
            self._write(row, load)
        else:
            self._unwritten[replica] = load

    def _write(self, row: int, load: HostLoad) -> None:
        _SLOT.pack_into(
            self._map,
            row * 8 + self._own_bytes,
            load.outstanding,
            load.head_tokens,
            load.head_at,
            load.progress_at,
            load.in_flight,
            load.decoding,
            load.prompt_tokens,
        )

    def others(self, replica: ReplicaId) -> HostLoad | None:
        """Return the other workers' load at a replica: sums, oldest head, latest progress."""
        if not self._others:
            return None
        seen = self._seen.get(replica)
        if seen is None:
            seen = self._first_look(replica)
            if seen is None:
                return None
        # Most rows are unchanged, and comparing their bytes is faster than adding them up.
        data = self._map[seen.span]
        if data != seen.data:
            seen.data = data
            seen.load = self._sum(data)
        return seen.load

    def beat(self, now: float) -> None:
        """Record that this worker is alive, and find which other workers are."""
        self._now = now
        form = self._form
        floats, start = self._floats, form.columns_at
        floats[start + self.column * SLOT_WORDS] = now
        others = tuple(
            [
                offset
                for offset in range(0, form.columns * SLOT_WORDS, SLOT_WORDS)
                if offset != self.column * SLOT_WORDS
                and abs(now - floats[start + offset]) <= self._silence_seconds
            ]
        )
        if others != self._others:
            self._others = others
            self._seen.clear()
        if now - self._use_said_at >= self._idle_seconds / _USE_TIMES:
            # A worker that was paused for a while may have lost rows; it looks them up again.
            self._use_said_at = now
            for replica in self._directory.say_use(self._rows.items(), now):
                del self._rows[replica]
                self._seen.pop(replica, None)
        if self._unwritten:
            # Written last, because the rows this worker has lost were removed above.
            for replica, load in self._unwritten.items():
                row = self._rows.get(replica, NO_ROW)
                if row != NO_ROW:
                    self._write(row, load)
            self._unwritten.clear()

    def live_workers(self) -> int:
        """Return the number of live workers, including this one."""
        return 1 + len(self._others)

    def keep_only(self, replicas: Iterable[ReplicaId]) -> None:
        """Clear and forget the rows of all other replicas, which are gone."""
        kept = frozenset(replicas)
        for replica in [each for each in self._rows if each not in kept]:
            row = self._rows.pop(replica)
            if row != NO_ROW:
                self._write(row, HostLoad())
            self._unwritten.pop(replica, None)
            self._seen.pop(replica, None)

    def close(self) -> None:
        """Mark this worker as dead for the others, and free its column."""
        self._floats[self._form.columns_at + self.column * SLOT_WORDS] = 0.0
        for view in (self._floats, self._view):
            view.release()
        self._directory.close()
        self._file.close()

    def _first_look(self, replica: ReplicaId) -> _Seen | None:
        row = self._rows.get(replica)
        if row is None:
            row = self._find_row(replica)
        if row == NO_ROW:
            return None
        first, last = self._others[0], self._others[-1] + SLOT_WORDS
        seen = self._seen[replica] = _Seen(slice((row + first) * 8, (row + last) * 8))
        return seen

    def _sum(self, data: bytes) -> HostLoad | None:
        """Add up the other workers' slots; `data` begins with the first other worker's slot."""
        first = self._others[0]
        outstanding = head_tokens = head_at = progress_at = 0.0
        in_flight = decoding = prompt_tokens = 0.0
        for offset in self._others:
            slot: tuple[float, ...] = _SLOT.unpack_from(data, (offset - first) * 8)
            waiting, head, began_at, progress, count, decodes, tokens = slot
            if count:
                outstanding += waiting
                in_flight += count
                decoding += decodes
                prompt_tokens += tokens
                if began_at and (not head_at or began_at < head_at):
                    head_tokens, head_at = head, began_at
            progress_at = max(progress_at, progress)
        total = outstanding + head_tokens + head_at + progress_at
        total += in_flight + decoding + prompt_tokens
        # NaN fails every comparison, so a sum that contains NaN is not sane.
        is_sane = total < _SANE_MAX and outstanding >= 0 and head_tokens >= 0 and head_at >= 0
        if not (is_sane and in_flight >= 0 and decoding >= 0 and prompt_tokens >= 0):
            self.damaged += 1
            return None
        return HostLoad(
            outstanding, head_tokens, head_at, progress_at, in_flight, decoding, prompt_tokens
        )

    def _take_column(self) -> None:
        """Clear the previous owner's slots, and increment the column's generation."""
        at = self._form.columns_at + self.column * SLOT_WORDS
        self._floats[at] = 0.0
        self._floats[at + 1] += 1.0
        step, first = self._form.row_words * 8, self._form.slots_at * 8 + self._own_bytes
        for offset in range(first, self._form.size_bytes, step):
            _SLOT.pack_into(self._map, offset, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        # Clearing touched all 4 MB. The file keeps the data; drop the pages, so that only the rows
        # in use stay in this worker's memory.
        self._map.madvise(mmap.MADV_DONTNEED)

    def _find_row(self, replica: ReplicaId) -> int:
        row = self._directory.find(replica, self._now)
        if row is None:
            return NO_ROW
        if row == NO_ROW:
            self.missing += 1
        # NO_ROW is kept too, so that the lookup is retried only when rows are next marked as used.
        self._rows[replica] = row
        return row
