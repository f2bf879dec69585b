"""Counts what containers take of a host: a number of them, a user for each, and memory.

Pure. The memory of a container counts in full from its start to its end, so that containers which
all use what they may still fit into the machine.
"""

import os
from collections import deque

import msgspec

_MIB = 2**20


class HostPlace(msgspec.Struct, frozen=True):
    """What one container has taken."""

    uid: int
    memory_mb: int


class Places:
    """A place is given back only when nothing of its container is left."""

    def __init__(self, uids: range, *, containers_max: int, memory_mb: int) -> None:
        # The user that was freed longest ago is the next.
        self._uids = deque(uids)
        self._left = containers_max
        self._memory_mb = memory_mb

    def take(self, memory_mb: int) -> HostPlace | None:
        """Return a place, or None if the host is full."""
        if not self._left or not self._uids or memory_mb > self._memory_mb:
            return None
        self._left -= 1
        self._memory_mb -= memory_mb
        return HostPlace(self._uids.popleft(), memory_mb)

    def would_fit(self, memory_mb: int, freed: int, freed_mb: int) -> bool:
        """Return whether there is a place once so many others with so much memory have ended."""
        return self._left + freed > 0 and memory_mb <= self._memory_mb + freed_mb

    def give_back(self, place: HostPlace) -> None:
        self._left += 1
        self._memory_mb += place.memory_mb
        self._uids.append(place.uid)


def memory_mb_for_containers(total_mb: int = 0) -> int:
    """Return the machine's memory less an eighth of it, or less 1 GiB if that is more."""
    whole = total_mb or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB
    return max(0, whole - max(1024, whole // 8))
