"""Renders the demo: acts, replicas and jobs as bars while it runs, then one table. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.bench.figures import first_tokens_ms, spread
from penstock.cli.bench.tables import busy_note, milliseconds
from penstock.cli.demo.acts import Act, ActRow, Stage
from penstock.cli.demo.engine_watch import EngineWatch
from penstock.cli.demo.plan import DemoPlan
from penstock.console.formats import NOTHING, bar, dollars, percent, short

_BAR: Final = 20
_NAMES: Final[Mapping[Act, str]] = {
    Act.ROUND_ROBIN: "Round robin, no affinity",
    Act.AFFINITY: "Penstock with affinity",
    Act.FLEX: "The same, flex behind it",
}
_LEGEND: Final = (
    "Round robin goes straight to the engines: Penstock's router finds a cached prompt by its\n"
    "beginning even where no session is named, so there is no such router to turn off.\n"
    "Tokens are those of prompts and answers, jobs' too, for each second of each engine."
)


def scene(
    plan: DemoPlan, stage: Stage, watch: EngineWatch, rows: Sequence[ActRow], act: Act
) -> RenderableType:
    """Return the screen while `act` runs."""
    acts = _grid()
    for each in Act:
        acts.add_row(*_act_cells(each, stage, rows, act))
    replicas = _grid()
    for place, now in enumerate(watch.now):
        ratio = watch.hit_ratio(place)
        replicas.add_row(
            f"Replica {place + 1}",
            Text(bar(now.running, plan.engine.slots, _BAR).ljust(_BAR, "·"), style="cyan"),
            f"{now.running} of {plan.engine.slots} slots, {now.waiting} waiting",
            Text(bar(round((ratio or 0) * 100), 100, 10).ljust(10, "·"), style="green"),
            f"{percent(ratio)} cached",
        )
    jobs = stage.backlog.now
    if jobs.total:
        replicas.add_row(
            "Flex jobs",
            Text(bar(jobs.done, jobs.total, _BAR).ljust(_BAR, "·"), style="magenta"),
            f"{jobs.done} of {jobs.total} done, {jobs.running} running",
            "",
            "",
        )
    return Group(acts, Text(), replicas)


def _act_cells(each: Act, stage: Stage, rows: Sequence[ActRow], act: Act) -> tuple[str | Text, ...]:
    total = stage.requests
    done = next((row for row in rows if row.act is each), None)
    if done is not None:
        told = f"first token {milliseconds(done.report.first_token_ms.p50)}"
        return _NAMES[each], Text("█" * _BAR, style="blue"), f"{done.report.ok} of {total}", told
    if each is not act or stage.driver is None:
        return _NAMES[each], Text("·" * _BAR, style="blue"), "", ""
    samples = stage.driver.seen.samples
    filled = bar(len(samples), total, _BAR).ljust(_BAR, "·")
    told = f"first token {milliseconds(spread(first_tokens_ms(samples)).p50)}"
    return _NAMES[each], Text(filled, style="blue"), f"{len(samples)} of {total}", told


def closing_table(rows: Sequence[ActRow]) -> RenderableType:
    """Return a table with one row for each act that was run."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("", style="bold", no_wrap=True)
    titles = ("First token\np50", "\np95", "\nCached", "\nCost", "Tokens per\nengine-second")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        figures = row.report
        cost = figures.cost_nanousd
        rate = row.tokens_per_engine_second
        table.add_row(
            _NAMES[row.act],
            milliseconds(figures.first_token_ms.p50),
            milliseconds(figures.first_token_ms.p95),
            percent(figures.hit_ratio),
            "unknown" if cost is None else dollars(cost),
            NOTHING if rate is None else short(round(rate)),
        )
    parts: list[RenderableType] = [table, Text()]
    jobs = next((row.jobs for row in rows if row.jobs is not None), None)
    if jobs is not None:
        cost_of = f"{dollars(jobs.cost_nanousd)} at the flex price"
        parts.append(Text(f"Behind it {jobs.done} of {jobs.total} jobs were done, {cost_of}.\n"))
    failed = sum(sum(row.report.errors.values()) for row in rows)
    if failed:
        parts.append(Text(f"{failed} requests failed.\n", style="red"))
    busiest = max((row.report for row in rows), key=lambda each: each.loop_late_p99_ms)
    busy = busy_note(busiest)
    if busy is not None:
        parts.append(Text(f"{busy}\n", style="yellow"))
    return Group(*parts, Text(_LEGEND, style="dim"))


def _grid() -> Table:
    grid = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(5):
        grid.add_column(no_wrap=True)
    return grid
