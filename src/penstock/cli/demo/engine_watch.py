"""Reads the load of the demo's engines from their metrics pages."""

import asyncio
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.cli.http_call import HttpCaller
from penstock.errors import ReplicaUnreachable
from penstock.fleet.engine_metrics import read_metrics

_EVERY_SECONDS: Final = 0.3
_HITS: Final = re.compile(rb"^vllm:prefix_cache_hits_total\S* (\S+)$", re.MULTILINE)
_QUERIES: Final = re.compile(rb"^vllm:prefix_cache_queries_total\S* (\S+)$", re.MULTILINE)


class EngineNow(msgspec.Struct, frozen=True):
    """One reading. Tokens are counted since the engine's start."""

    running: int = 0
    waiting: int = 0
    asked_tokens: float = 0.0
    hit_tokens: float = 0.0


class EngineWatch:
    """`now` has the last reading of each engine, `since` that at the start of the act."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._caller = HttpCaller(seconds=2.0)
        self.now = [EngineNow() for _ in urls]
        self.since = list(self.now)

    def begin_act(self) -> None:
        self.since = list(self.now)

    async def watch(self) -> None:
        """Read the engines until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_SECONDS)

    async def look(self) -> None:
        for place, url in enumerate(self._urls):
            reading = await asyncio.to_thread(self._read, url)
            if reading is not None:
                self.now[place] = reading

    def hit_ratio(self, place: int) -> float | None:
        """Return the cached share of the prompt tokens that one engine got in this act."""
        asked = self.now[place].asked_tokens - self.since[place].asked_tokens
        hit = self.now[place].hit_tokens - self.since[place].hit_tokens
        return hit / asked if asked > 0 else None

    def asked_tokens(self) -> tuple[int, ...]:
        """Return the prompt tokens that each engine got in this act."""
        pairs = zip(self.now, self.since, strict=True)
        return tuple(round(now.asked_tokens - since.asked_tokens) for now, since in pairs)

    def _read(self, url: str) -> EngineNow | None:
        try:
            page = self._caller.get(url, "/metrics").body
        except ReplicaUnreachable:
            return None
        load = read_metrics(page)
        return EngineNow(
            load.running or 0, load.waiting or 0, _sum(_QUERIES, page), _sum(_HITS, page)
        )


def _sum(pattern: re.Pattern[bytes], page: bytes) -> float:
    return sum(float(value) for value in pattern.findall(page))
