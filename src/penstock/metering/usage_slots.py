"""Keeps the last usage of each open attempt in a file that outlives the worker.

A slot has two halves and a byte that selects the valid one. A write fills the other half, then
changes the byte. So a kill at any moment leaves a whole usage: the newest or the one before.
"""

import mmap
import os
from pathlib import Path
from typing import Final

from penstock.errors import JournalFull

SLOT_BYTES: Final = 512
_HALF: Final = 256
_START: Final = 4
USAGE_BYTES_MAX: Final = _HALF - _START
# Encoded lengths, made in advance because every chunk of a stream writes one.
_LENGTHS: Final = [length.to_bytes(2, "little") for length in range(_HALF)]


class UsageSlots:
    """A file of slots: `take` one, `note` usage in it any number of times, `free` it."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._count = len(data) // SLOT_BYTES
        # Slots from here on were never taken; slots in `_free` are reused before them.
        self._fresh = 0
        self._free: list[int] = []

    @classmethod
    def make(cls, path: Path, count: int) -> "UsageSlots":
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            # Allocated now, because on a full disk the first write to a page kills the process.
            os.posix_fallocate(descriptor, 0, count * SLOT_BYTES)
            return cls(mmap.mmap(descriptor, count * SLOT_BYTES))
        finally:
            os.close(descriptor)

    @classmethod
    def read(cls, path: Path) -> "UsageSlots":
        """Open another worker's slots, read-only."""
        with path.open("rb") as file:
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def take(self) -> int:
        if self._free:
            slot = self._free.pop()
        elif self._fresh < self._count:
            slot = self._fresh
            self._fresh += 1
        else:
            raise JournalFull("This gateway has as many requests open as it may.")
        self._data[slot * SLOT_BYTES] = 0
        return slot

    def note(self, slot: int, usage: bytes) -> None:
        """Store a raw `usage` object, or ignore it if it is too long for a slot."""
        length = len(usage)
        if length > USAGE_BYTES_MAX:
            return
        data, base = self._data, slot * SLOT_BYTES
        half = 2 if data[base] == 1 else 1
        start = base + (half - 1) * _HALF + _START
        data[start - 2 : start + length] = _LENGTHS[length] + usage
        data[base] = half

    def last(self, slot: int) -> bytes | None:
        """Return the last noted usage, or None."""
        data, base = self._data, slot * SLOT_BYTES
        if not data[base]:
            return None
        start = base + (data[base] - 1) * _HALF + _START
        length = data[start - 2] | data[start - 1] << 8
        return data[start : start + length]

    def free(self, slot: int) -> None:
        self._free.append(slot)

    def close(self) -> None:
        self._data.close()
