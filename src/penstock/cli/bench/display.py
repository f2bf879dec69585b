"""Shows a progress bar during a run, on a terminal only."""

import asyncio
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.bench.driver import Driver
from penstock.cli.bench.figures import first_tokens_ms, spread
from penstock.cli.bench.tables import milliseconds

_EVERY_SECONDS: Final = 0.25
# The figure beside the bar covers only the last answers, so that it changes.
_RECENT: Final = 200


async def show_progress(driver: Driver, requests: int, console: Console) -> None:
    """Update the bar until cancelled."""
    if not console.is_terminal:
        return
    columns = (
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=requests, told="")
        while True:
            progress.update(
                task, completed=len(driver.seen.samples), told=line_of(driver), refresh=True
            )
            await asyncio.sleep(_EVERY_SECONDS)


def line_of(driver: Driver) -> str:
    """Return requests under way, the first-token time of the last ones, and failures."""
    seen = driver.seen
    recent = spread(first_tokens_ms(seen.samples[-_RECENT:]))
    told = f"{seen.in_flight} under way, first token {milliseconds(recent.p50)}"
    return f"{told}, [red]{seen.failed} failed[/]" if seen.failed else told
