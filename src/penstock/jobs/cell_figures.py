"""Reads figures of the whole cell, every 5 s, for `/metrics`: queue, webhooks, hosts, decisions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.clock import Clock
from penstock.contracts.chain_checks import count_breaks
from penstock.errors import StoreUnavailable
from penstock.events import DeliveryFigures, read_figures
from penstock.queue import FlexStats, Queue
from penstock.records.model import ModelId
from penstock.store import Store, Transaction

_READ_SECONDS: Final = 5.0
_QUEUE_FIGURES: Final = (
    "penstock_flex_queued",
    "penstock_flex_running",
    "penstock_flex_oldest_seconds",
    "penstock_flex_jobs_per_second",
    "penstock_flex_started_soon_ratio",
)
Figures = dict[str, dict[str, float]]


class CellFigures:
    """Reads small tables. While Postgres is down there are no figures.

    `read_silences` gives the seconds since each host was heard of.
    """

    def __init__(
        self,
        store: Store,
        queue: Queue,
        read_silences: Callable[[Transaction], Awaitable[dict[str, float]]],
        clock: Clock,
    ) -> None:
        self._store = store
        self._queue = queue
        self._read_silences = read_silences
        self._now = clock.now
        self.latest: Figures = {}

    async def run(self) -> None:
        while True:
            try:
                self.latest = await self.read()
            except StoreUnavailable:
                # Old figures would be mistaken for current ones.
                self.latest = {}
            await asyncio.sleep(_READ_SECONDS)

    async def read(self) -> Figures:
        async with self._store.transaction() as transaction:
            stats = await self._queue.stats(transaction)
            deliveries = await read_figures(transaction)
            silences = await self._read_silences(transaction)
            breaks = await count_breaks(transaction)
        hosts = {f"host {name}": seconds for name, seconds in silences.items()}
        figures = _of_queue(stats, self._now()) | _of_webhooks(deliveries)
        return figures | {
            "penstock_host_silent_seconds": hosts,
            "penstock_decision_chain_breaks": {"": float(breaks)},
        }


def _of_queue(stats: dict[ModelId, FlexStats], now: float) -> Figures:
    # Named even if there is no job yet: a page without them looks like an older version's.
    figures: Figures = {name: {} for name in _QUEUE_FIGURES}
    for model, stat in stats.items():
        oldest = stat.oldest_created_at
        known = (
            stat.queued,
            stat.running,
            0.0 if oldest is None else max(0.0, now - oldest),
            stat.finished_per_second,
            stat.started_soon,
        )
        for name, value in zip(_QUEUE_FIGURES, known, strict=True):
            if value is not None:
                figures[name][f"model {model}"] = value
    return figures


def _of_webhooks(deliveries: DeliveryFigures) -> Figures:
    outcomes = {f"outcome {name}": float(count) for name, count in deliveries.outcomes.items()}
    return {
        "penstock_webhook_tries_total": outcomes,
        "penstock_webhook_oldest_seconds": {"": deliveries.oldest_seconds},
    }
