"""Shows the replicas that start on one line, because loading takes minutes.

On a terminal the line is rewritten in place; elsewhere it is printed when the set of these replicas
changes, and every ten seconds.
"""

import re
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from penstock.clock import Clock
from penstock.fleet.progress import ReplicaProgress
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState

_REPEAT_SECONDS = 10.0
_LINE_CHARACTERS = 100
_SPINNER_CHARACTERS = 3
# The prefix of vLLM's log lines (process, time, file), for which a terminal has no room.
_LOG_PREFIX = re.compile(r"^(\([^)]*\) )?(DEBUG|INFO|WARNING|ERROR) [\d-]+ [\d:]+ \[[^\]]*\] ")


class ProgressLine:
    """`with ProgressLine(...) as line:`, then `line.take(progress)` for each report."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._latest: dict[ReplicaId, ReplicaProgress] = {}
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
        if news.state is ReplicaState.STARTING:
            self._latest[news.replica] = news
            self._show()
            return
        self._latest.pop(news.replica, None)
        if not self._latest:
            self.close()
        self._console.print(ended_line(news), soft_wrap=True)

    def _show(self) -> None:
        text = starting_line(self._latest.values())
        if self._console.is_terminal:
            self._status.update(self._fitted(text))
            if not self._is_shown:
                self._status.start()
                self._is_shown = True
            return
        phase = " ".join(sorted(self._latest))
        now = self._clock.monotonic()
        if phase != self._printed_phase or now - self._printed_at >= _REPEAT_SECONDS:
            self._printed_phase, self._printed_at = phase, now
            self._console.print(text, soft_wrap=True)

    def _fitted(self, markup: str) -> Text:
        """Cut a line to the terminal's width: a longer one cannot be rewritten in place."""
        text = Text.from_markup(markup)
        text.truncate(self._console.width - _SPINNER_CHARACTERS, overflow="ellipsis")
        return text


def starting_line(replicas: Iterable[ReplicaProgress]) -> str:
    """Return one line for all replicas that start: seconds, and each engine's last log line."""
    return "; ".join(_starting(each) for each in replicas)


def ended_line(news: ReplicaProgress) -> str:
    """Return a line with a replica's new state."""
    colour = "green" if news.state is ReplicaState.READY else "yellow"
    detail = f": {escape(news.detail)}" if news.detail else ""
    return f"[{colour}]{news.state}[/] {escape(_short(news.model))}{detail}"


def _starting(news: ReplicaProgress) -> str:
    line = _LOG_PREFIX.sub("", news.line)
    words = escape((line or news.detail)[:_LINE_CHARACTERS])
    text = f"[cyan]starting[/] {escape(_short(news.model))} {news.elapsed_seconds:.0f} s"
    return f"{text} [dim]{words}[/]" if words else text


def _short(model: ModelId) -> str:
    return model.rsplit("/", 1)[-1]
