"""Renders queues while they shrink: a row of measured figures and a bar for each.

A queue has no known total, so its bar shows how much is done of the most jobs that were seen open.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from rich.console import Console
from rich.text import Text

from penstock.cli.table import Column, Columns, lay_out
from penstock.console.formats import NOTHING, bar, last_part, short
from penstock.queue import Batch, FlexStats
from penstock.records.model import ModelId

PAUSED: Final = "paused"
_BAR: Final = 12
# `penstock control` measures every few seconds; figures older than this are stale.
_OLD_SECONDS: Final = 60.0
_COLUMNS: Columns = (
    *(Column("queue"), Column("", is_optional=True)),
    *(Column(title, is_right=True) for title in ("done", "queued", "running")),
    Column("per second", is_right=True, is_optional=True),
    *(Column(title, is_right=True) for title in ("oldest", "ETA")),
)


class WatchRow(msgspec.Struct, frozen=True):
    """One model's queue, or one batch."""

    name: str
    done: int
    total: int
    queued: int
    running: int
    finished_per_second: float | None
    oldest_seconds: float | None
    eta_seconds: float | None
    # Whether no job begins, so that there is no ETA.
    is_paused: bool = False
    # The age of the figures, if they are stale.
    stale_seconds: float | None = None

    @property
    def is_done(self) -> bool:
        return not self.queued and not self.running


class Backlog:
    """Remembers the most jobs that each model had open while it was watched."""

    def __init__(self) -> None:
        self._most: dict[ModelId, int] = {}

    def rows(
        self, stats: Mapping[ModelId, FlexStats], paused: Container[ModelId], now: float
    ) -> list[WatchRow]:
        """Return a row for each model that has open jobs, or had some while it was watched."""
        found = []
        for model, figures in sorted(stats.items()):
            is_open = figures.queued + figures.running
            most = self._most[model] = max(self._most.get(model, 0), is_open)
            if most:
                row = _row(model, figures, most, now)
                found.append(_pause(row) if model in paused else row)
        return found


def batch_row(
    batch: Batch, stats: FlexStats | None, paused: Container[ModelId], now: float
) -> WatchRow:
    """Return a batch's row: its own counts, and the speed of its model's queue."""
    rate = None if stats is None else stats.finished_per_second
    eta = _eta(batch.open_jobs, rate)
    row = WatchRow(
        name=batch.id,
        done=batch.total - batch.open_jobs,
        total=batch.total,
        queued=batch.open_jobs - batch.running,
        running=batch.running,
        finished_per_second=rate,
        oldest_seconds=None,
        # What has not begun by the deadline expires.
        eta_seconds=eta if eta is not None and now + eta <= batch.deadline else None,
    )
    return _pause(row) if batch.model in paused else row


def watch_table(rows: Sequence[WatchRow], out: Console) -> Text:
    """Return the rows as lines that fit the console."""
    return Text("\n").join(lay_out(_COLUMNS, map(_cells, rows), out).lines if rows else [])


def watch_line(row: WatchRow) -> str:
    """Return a row as one line, for a pipe."""
    return (
        f"{row.name}: {row.done}/{row.total} done, {row.queued} queued, {row.running} running,"
        f" oldest {age(row.oldest_seconds)},"
        f" ETA {eta_text(row.eta_seconds, is_paused=row.is_paused)}"
    )


def stale_line(rows: Iterable[WatchRow]) -> str:
    """Return a warning if the figures are stale, else an empty string."""
    oldest = max((row.stale_seconds or 0.0 for row in rows), default=0.0)
    if not oldest:
        return ""
    return f"Measured {age(oldest)} ago: does `penstock control` run?"


def eta_text(seconds: float | None, *, is_paused: bool) -> str:
    return PAUSED if is_paused else age(seconds)


def age(seconds: float | None) -> str:
    """Format a duration: 90 is 1m30s."""
    if seconds is None:
        return NOTHING
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m"


def _cells(row: WatchRow) -> tuple[str | Text, ...]:
    filled = bar(row.done, row.total, _BAR) if row.total else ""
    return (
        last_part(row.name),
        Text(f"{filled:<{_BAR}}", style="green" if row.is_done else "cyan on grey23"),
        f"{short(row.done)}/{short(row.total)}",
        short(row.queued),
        short(row.running),
        NOTHING if row.finished_per_second is None else f"{row.finished_per_second:.1f}",
        age(row.oldest_seconds),
        eta_text(row.eta_seconds, is_paused=row.is_paused),
    )


def _row(model: ModelId, figures: FlexStats, most: int, now: float) -> WatchRow:
    is_open = figures.queued + figures.running
    stale = now - figures.measured_at
    born = figures.oldest_created_at
    return WatchRow(
        name=model,
        done=most - is_open,
        total=most,
        queued=figures.queued,
        running=figures.running,
        finished_per_second=figures.finished_per_second,
        oldest_seconds=None if born is None else max(0.0, now - born),
        eta_seconds=_eta(is_open, figures.finished_per_second),
        stale_seconds=stale if stale > _OLD_SECONDS else None,
    )


def _pause(row: WatchRow) -> WatchRow:
    """Return the row without an ETA, unless all of it is done."""
    if row.is_done:
        return row
    return msgspec.structs.replace(row, eta_seconds=None, is_paused=True)


def _eta(count: int, per_second: float | None) -> float | None:
    if not count:
        return 0.0
    return count / per_second if per_second else None
