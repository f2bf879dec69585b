"""Shows the replicas that start on one line, because loading takes minutes.

On a terminal the line is rewritten in place; elsewhere it is printed when the set of these replicas
changes, and every ten seconds. Of many replicas it shows the first few.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from penstock.cli.load_stages import FIRST_STAGE, stage_of
from penstock.cli.output import last_part
from penstock.clock import Clock
from penstock.fleet.progress import ReplicaProgress
from penstock.records.replica import ReplicaId, ReplicaState

_REPEAT_SECONDS = 10.0
_DETAIL_CHARACTERS = 100
_SPINNER_CHARACTERS = 3
_SHOWN_MAX = 8


class ProgressLine:
    """`with ProgressLine(...) as line:`, then `line.take(progress)` for each report."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._latest: dict[ReplicaId, ReplicaProgress] = {}
        self._stages: dict[ReplicaId, str] = {}
        self._status = console.status("")
        self._is_shown = False
        self._printed_phase = ""
        self._printed_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._is_shown:
            self._status.stop()
            self._is_shown = False

    def take(self, news: ReplicaProgress) -> None:
        """Show a report of one replica."""
        # A replica has its own id when its weights have come.
        fetch = ReplicaId(f"fetch {news.model}")
        if not news.is_fetching:
            self._latest.pop(fetch, None)
        if news.state is ReplicaState.STARTING:
            self._latest[fetch if news.is_fetching else news.replica] = news
            stage = stage_of(news.line)
            if stage is not None:
                self._stages[news.replica] = stage
            self._show()
            return
        starting = self._latest.pop(news.replica, None)
        self._stages.pop(news.replica, None)
        if not self._latest:
            self.close()
        took = starting.elapsed_seconds if starting is not None else None
        self._console.print(ended_line(news, took), soft_wrap=True)

    def _show(self) -> None:
        text = starting_line(self._latest.values(), self._stages)
        if self._console.is_terminal:
            self._status.update(self._fitted(text))
            if not self._is_shown:
                self._status.start()
                self._is_shown = True
            return
        shown = islice(self._latest, _SHOWN_MAX)
        phase = " ".join(f"{id_} {self._stages.get(id_)}" for id_ in shown)
        now = self._clock.monotonic()
        if phase != self._printed_phase or now - self._printed_at >= _REPEAT_SECONDS:
            self._printed_phase, self._printed_at = phase, now
            self._console.print(text, soft_wrap=True)

    def _fitted(self, markup: str) -> Text:
        """Cut a line to the terminal's width: a longer one cannot be rewritten in place."""
        text = Text.from_markup(markup)
        text.truncate(self._console.width - _SPINNER_CHARACTERS, overflow="ellipsis")
        return text


def starting_line(replicas: Collection[ReplicaProgress], stages: Mapping[ReplicaId, str]) -> str:
    """Return one line for the replicas that start: seconds so far, and what each one does."""
    shown = islice(replicas, _SHOWN_MAX)
    parts = [_starting(each, stages.get(each.replica, FIRST_STAGE)) for each in shown]
    if len(replicas) > _SHOWN_MAX:
        parts.append(f"and {len(replicas) - _SHOWN_MAX} more")
    return "; ".join(parts)


def ended_line(news: ReplicaProgress, start_seconds: float | None = None) -> str:
    """Return a line with a replica's new state, and how long its start took."""
    colour = "green" if news.state is ReplicaState.READY else "yellow"
    is_timed = news.state is ReplicaState.READY and start_seconds is not None
    took = f" in {start_seconds:.0f} s" if is_timed else ""
    detail = f": {escape(news.detail)}" if news.detail else ""
    return f"[{colour}]{news.state}[/] {escape(last_part(news.model))}{took}{detail}"


def _starting(news: ReplicaProgress, stage: str) -> str:
    # An engine that is attached has no log; its detail says why it is not ready yet.
    words = escape((news.detail or stage)[:_DETAIL_CHARACTERS])
    model = escape(last_part(news.model))
    if news.is_fetching:
        return f"[cyan]waiting[/] {model} [dim]{words}[/]"
    return f"[cyan]starting[/] {model} {news.elapsed_seconds:.0f} s [dim]{words}[/]"
