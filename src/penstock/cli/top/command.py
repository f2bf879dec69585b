"""The command `penstock top`: tabs that renew themselves, or one look for a script."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from penstock.cli.administration import Administration, administer
from penstock.cli.keyboard import pressed_keys
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json
from penstock.cli.top.tabs import Tab, read_all, read_tab, tab_lines
from penstock.clock import Clock, SystemClock
from penstock.errors import Error

_TABS: Final = tuple(Tab)
_KEY_SECONDS: Final = 0.1


def top(
    context: typer.Context,
    *,
    tab: Annotated[Tab, typer.Option(help="The tab to begin with.")] = Tab.FLEET,
    once: Annotated[bool, typer.Option("--once", help="Print one tab, and end.")] = False,
    seconds: Annotated[float, typer.Option(help="How often it looks.", min=0.5, max=3600)] = 2.0,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Watch replicas, workflows, sessions and requests; with --json one look at all of them."""
    clock = SystemClock()
    if json:
        print_json(administer(context, state, read_all))
    elif once:
        facts = administer(context, state, lambda desk: read_tab(desk, tab))
        out = console()
        for line in tab_lines(facts, clock.now(), out):
            out.print(line, soft_wrap=True)
    else:
        administer(context, state, lambda desk: _watch(desk, tab, seconds, clock))


async def _watch(desk: Administration, tab: Tab, seconds: float, clock: Clock) -> None:
    """Show tabs until `q` or Ctrl-C; a number's key changes the tab."""
    out = console()
    with pressed_keys() as keys, _screen(out) as live:
        until_look = 0.0
        while True:
            for key in keys():
                if key == "q":
                    return
                if key.isdigit() and 1 <= int(key) <= len(_TABS):
                    tab, until_look = _TABS[int(key) - 1], 0.0
            if until_look <= 0:
                until_look = seconds
                live.update(await _page(desk, tab, clock, out), refresh=True)
            await asyncio.sleep(_KEY_SECONDS)
            until_look -= _KEY_SECONDS


@contextmanager
def _screen(out: Console) -> Iterator[Live]:
    with Live(console=out, screen=out.is_terminal, auto_refresh=False) as live:
        yield live


async def _page(desk: Administration, tab: Tab, clock: Clock, out: Console) -> Group:
    head = Text()
    for number, each in enumerate(_TABS, 1):
        head.append(f" {number} {each} ", style="reverse" if each is tab else "dim")
    head.append("  q ends", style="dim")
    try:
        lines = tab_lines(await read_tab(desk, tab), clock.now(), out)
    except Error as failed:
        # Postgres or control may come back: it goes on looking.
        lines = [Text(f"{failed}", style="red")]
    room = max(1, out.height - 3)
    if len(lines) > room:
        left = len(lines) - room + 1
        lines = [*lines[: room - 1], Text(f"and {left} more lines", style="dim")]
    return Group(head, Text(), *lines)
