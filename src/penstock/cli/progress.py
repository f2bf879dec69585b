"""Shows the replicas that start on one line, because loading takes minutes.

On a terminal the line is rewritten in place; elsewhere it is printed when the set of these replicas
changes, and every ten seconds. Of many replicas it shows the first few.
"""

import re
from collections.abc import Collection, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from penstock.cli.load_stages import FIRST_STAGE, stage_of
from penstock.clock import Clock
from penstock.console.formats import last_part
from penstock.fleet.progress import ReplicaProgress
from penstock.records.replica import ReplicaId, ReplicaState

if TYPE_CHECKING:
    # rich takes megabytes, and a keeper that runs as a service has no terminal.
    from rich.console import Console
    from rich.text import Text

_REPEAT_SECONDS = 10.0
_DETAIL_CHARACTERS = 100
_SPINNER_CHARACTERS = 3
_SHOWN_MAX = 8
# A mark of style in a line, which is not a bracket that is text.
_STYLE: Final = re.compile(r"(?<!\\)\[/?[a-z]*\]")


class LineDisplay(Protocol):
    """Where lines go that no terminal shows."""

    def write(self, text: str, /) -> int: ...


class ProgressReports:
    """Keeps what each starting replica does, and says which line a report is worth."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: dict[ReplicaId, ReplicaProgress] = {}
        self._stages: dict[ReplicaId, str] = {}
        self._printed_phase = ""
        self._printed_at = 0.0

    @property
    def is_anything_starting(self) -> bool:
        return bool(self._latest)

    def starting_now(self) -> str:
        """Return one line for the replicas that start."""
        return starting_line(self._latest.values(), self._stages)

    def note(self, news: ReplicaProgress) -> str:
        """Take a report; return the line of a replica that does not start any more, else ""."""
        # A replica has its own id when its weights have come.
        fetch = ReplicaId(f"fetch {news.model}")
        if not news.is_fetching:
            self._latest.pop(fetch, None)
        if news.state is ReplicaState.STARTING:
            self._latest[fetch if news.is_fetching else news.replica] = news
            stage = stage_of(news.line)
            if stage is not None:
                self._stages[news.replica] = stage
            return ""
        starting = self._latest.pop(news.replica, None)
        self._stages.pop(news.replica, None)
        return ended_line(news, starting.elapsed_seconds if starting is not None else None)

    def line_if_due(self) -> str:
        """Return the line of starting replicas if what they do has changed or it is time again."""
        shown = islice(self._latest, _SHOWN_MAX)
        phase = " ".join(f"{id_} {self._stages.get(id_)}" for id_ in shown)
        now = self._clock.monotonic()
        if phase == self._printed_phase and now - self._printed_at < _REPEAT_SECONDS:
            return ""
        self._printed_phase, self._printed_at = phase, now
        return self.starting_now()


class PlainLines:
    """Prints progress without rich, where there is no terminal."""

    def __init__(self, display: LineDisplay, clock: Clock) -> None:
        self._display = display
        self._reports = ProgressReports(clock)

    def take(self, news: ReplicaProgress) -> None:
        """Print a report of one replica, if it is worth a line."""
        line = self._reports.note(news) or self._reports.line_if_due()
        if line:
            self._display.write(f"{plain(line)}\n")


class ProgressLine:
    """`with ProgressLine(...) as line:`, then `line.take(progress)` for each report."""

    def __init__(self, console: "Console", clock: Clock) -> None:
        self._console = console
        self._reports = ProgressReports(clock)
        self._status = console.status("")
        self._is_shown = False

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
        ended = self._reports.note(news)
        if ended:
            if not self._reports.is_anything_starting:
                self.close()
            self._console.print(ended, soft_wrap=True)
        else:
            self._show()

    def _show(self) -> None:
        if self._console.is_terminal:
            self._status.update(self._fitted(self._reports.starting_now()))
            if not self._is_shown:
                self._status.start()
                self._is_shown = True
            return
        line = self._reports.line_if_due()
        if line:
            self._console.print(line, soft_wrap=True)

    def _fitted(self, markup: str) -> "Text":
        """Cut a line to the terminal's width: a longer one cannot be rewritten in place."""
        from rich.text import Text  # noqa: PLC0415 - see above

        text = Text.from_markup(markup)
        text.truncate(self._console.width - _SPINNER_CHARACTERS, overflow="ellipsis")
        return text


def plain(line: str) -> str:
    """Return a line without its marks of style."""
    return _STYLE.sub("", line).replace("\\[", "[")


def _escaped(text: str) -> str:
    """Return a text of somebody else's for a line: none of it is a mark of style."""
    return text.replace("[", "\\[")


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
    detail = f": {_escaped(news.detail)}" if news.detail else ""
    return f"[{colour}]{news.state}[/] {_escaped(last_part(news.model))}{took}{detail}"


def _starting(news: ReplicaProgress, stage: str) -> str:
    # An engine that is attached has no log; its detail says why it is not ready yet.
    words = _escaped((news.detail or stage)[:_DETAIL_CHARACTERS])
    model = _escaped(last_part(news.model))
    if news.is_fetching:
        return f"[cyan]waiting[/] {model} [dim]{words}[/]"
    return f"[cyan]starting[/] {model} {news.elapsed_seconds:.0f} s [dim]{words}[/]"
