"""Remembers which era of the protocol each server speaks, so that most calls need no question."""

from enum import Enum

from penstock.clock import Clock


class Era(Enum):
    """STATELESS: each request by itself (2026-07-28). SESSIONS: a handshake first (2025-11-25)."""

    STATELESS = "stateless"
    SESSIONS = "sessions"


class EraMemory:
    """Eras by URL, for a while; the oldest goes when there are too many."""

    def __init__(self, clock: Clock, *, seconds: float, servers_max: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._servers_max = servers_max
        self._known: dict[str, tuple[Era, float]] = {}

    def get(self, url: str) -> Era | None:
        era, until = self._known.get(url, (None, 0.0))
        return era if self._clock.monotonic() < until else None

    def put(self, url: str, era: Era) -> None:
        self._known.pop(url, None)
        while len(self._known) >= self._servers_max:
            del self._known[next(iter(self._known))]
        self._known[url] = era, self._clock.monotonic() + self._seconds

    def drop(self, url: str) -> None:
        self._known.pop(url, None)
