"""Measures each model's queue. The only writer of the table `flex_stats`.

Row by row it counts only running jobs and jobs that ended since the last measurement: the number of
queued jobs comes from the accounts' counts, the oldest one from an index.
"""

from typing import Final

import msgspec

from penstock.queue.job_queries import position
from penstock.queue.queries import read_queries
from penstock.queue.rates import blend, wait_seconds
from penstock.queue.settings import QueueSettings
from penstock.records.job import JobId
from penstock.records.model import ModelId
from penstock.store import Transaction

_QUERIES: Final = read_queries("measuring.sql")


class FlexStats(msgspec.Struct, frozen=True):
    """Figures of one model's queue. Rates average about the last minute; None: nothing ended."""

    queued: int
    running: int
    # In seconds since 1970; None when nothing waits.
    oldest_created_at: float | None
    finished_per_second: float | None
    tokens_per_second: float | None
    # Of the jobs that ended, the share that was begun within five minutes.
    started_soon: float | None
    measured_at: float


class _Counted(msgspec.Struct, frozen=True):
    """New counts of one model, with the averages stored before."""

    model: str
    queued: int
    running: int
    seconds: float | None
    finished: int
    tokens: int
    begun: int
    begun_soon: int
    finished_per_second: float | None
    tokens_per_second: float | None
    started_soon: float | None


async def measure(tx: Transaction, settings: QueueSettings) -> None:
    """Count each model's jobs, update the averages, and store both."""
    rows = await tx.fetch(_QUERIES["count"])
    counts = [_Counted(*row) for row in rows]
    averages = [_averages(counted, settings.rate_window_seconds) for counted in counts]
    await tx.execute(
        _QUERIES["write"],
        (
            [counted.model for counted in counts],
            [counted.queued for counted in counts],
            [counted.running for counted in counts],
            *([average[n] for average in averages] for n in range(3)),
        ),
    )


async def stats(tx: Transaction) -> dict[ModelId, FlexStats]:
    rows = await tx.fetch(_QUERIES["read"])
    return {ModelId(model): FlexStats(*figures) for model, *figures in rows}


async def eta_seconds(tx: Transaction, job: JobId, position_max: int) -> float | None:
    """Estimate the wait from the job's position, its account's share, and the model's rate.

    None also while the model is paused, and if the job's deadline would pass before it begins.
    """
    place = await position(tx, job, position_max)
    row = await tx.fetch_one(_QUERIES["share"], (job,))
    if place is None or row is None:
        return None
    share, queued, finished_per_second, is_stopped, seconds_left = row
    if is_stopped:
        return None
    wait = wait_seconds(place, queued, share, finished_per_second)
    return None if wait is None or wait > seconds_left else wait


def _averages(
    counted: _Counted, window_seconds: float
) -> tuple[float | None, float | None, float | None]:
    seconds = counted.seconds
    if not seconds:
        # The first measurement has no earlier time to compute a rate from.
        return counted.finished_per_second, counted.tokens_per_second, counted.started_soon
    finished = counted.finished_per_second
    tokens = counted.tokens_per_second
    soon = counted.started_soon
    if finished is not None or counted.finished:
        finished = blend(finished, counted.finished / seconds, seconds, window_seconds)
        tokens = blend(tokens, counted.tokens / seconds, seconds, window_seconds)
    if counted.begun:
        soon = blend(soon, counted.begun_soon / counted.begun, seconds, window_seconds)
    return finished, tokens, soon
