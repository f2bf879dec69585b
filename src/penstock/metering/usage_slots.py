"""The last usage of each open attempt, in a file that outlives the worker.

A slot has two halves and a byte that says which one counts: the other half is written first, then
the byte. A kill at any moment leaves a whole usage behind, the newest or the one before.
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
# Lengths as they stand before a usage: one is written for each chunk of a stream.
_LENGTHS: Final = [length.to_bytes(2, "little") for length in range(_HALF)]


class UsageSlots:
    """`take` one, `note` usage in it any number of times, `free` it."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._count = len(data) // SLOT_BYTES
        # Those below were taken before; what of them is free is taken again first.
        self._fresh = 0
        self._free: list[int] = []

    @classmethod
    def make(cls, path: Path, count: int) -> "UsageSlots":
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            # Taken from the disk now: a full one must not kill us when a page is first touched.
            os.posix_fallocate(descriptor, 0, count * SLOT_BYTES)
            return cls(mmap.mmap(descriptor, count * SLOT_BYTES))
        finally:
            os.close(descriptor)

    @classmethod
    def read(cls, path: Path) -> "UsageSlots":
        """Another worker's slots, as it left them."""
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
        """Keep a raw `usage` object. What is too long for a slot is not kept."""
        length = len(usage)
        if length > USAGE_BYTES_MAX:
            return
        data, base = self._data, slot * SLOT_BYTES
        half = 2 if data[base] == 1 else 1
        start = base + (half - 1) * _HALF + _START
        data[start - 2 : start + length] = _LENGTHS[length] + usage
        data[base] = half

    def last(self, slot: int) -> bytes | None:
        """The usage noted last; None if there was none."""
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
