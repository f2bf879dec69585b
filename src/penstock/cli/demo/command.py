"""The command `penstock demo`: its options, and the order of the acts."""

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.live import Live

from penstock.cli.demo.acts import Act, ActRow, Stage
from penstock.cli.demo.cell import demo_cell
from penstock.cli.demo.engine_watch import EngineWatch
from penstock.cli.demo.engines import imitated_engines
from penstock.cli.demo.plan import DemoPlan, plan_for
from penstock.cli.demo.screen import closing_table, scene
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.output import console, error_console, print_json
from penstock.cli.stop_signals import StopSignals

_FRAME_SECONDS: Final = 0.2


def demo(
    *,
    real: Annotated[
        bool, typer.Option("--real", help="Two real engines on the CPU; takes longer to start.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sessions: half a minute, rougher figures.")
    ] = False,
    json: Annotated[
        str | None,
        typer.Option(help="Write the figures to this file as JSON; - is standard output."),
    ] = None,
) -> None:
    """Show what affinity and flex are worth: a cell of its own, 20 agent sessions, one table.

    Takes three minutes at most (longer with --real), and leaves nothing behind. Ctrl-C ends it
    with what there is.
    """
    rows: list[ActRow] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_stopped(plan_for(is_real=real, is_quick=quick), rows))
    if json == "-":
        print_json(rows)
    elif rows:
        console().print(closing_table(rows))
        if json is not None:
            Path(json).write_bytes(msgspec.json.encode(rows))
    if len(rows) < len(Act):
        raise CommandFailed(f"Stopped after {len(rows)} of {len(Act)} acts.")


async def _until_stopped(plan: DemoPlan, rows: list[ActRow]) -> None:
    """Run the demo until its end or a signal; then all that it started has ended too."""
    signals = StopSignals()
    async with asyncio.TaskGroup() as group:
        showing = group.create_task(_show(plan, rows))
        asking = group.create_task(signals.asked.wait())
        await asyncio.wait({showing, asking}, return_when=asyncio.FIRST_COMPLETED)
        if not showing.done():
            error_console().print("stopping")
        showing.cancel()
        asking.cancel()


async def _show(plan: DemoPlan, rows: list[ActRow]) -> None:
    out = error_console()
    out.print(f"[bold]penstock demo[/]: {plan.told}\n", soft_wrap=True)
    async with contextlib.AsyncExitStack() as stack:
        with out.status("Starting engines, Postgres, keeper, gateway and control"):
            engines: tuple[str, ...] = ()
            if not plan.is_real:
                engines = await stack.enter_async_context(imitated_engines(plan))
            cell = await stack.enter_async_context(demo_cell(plan, engines))
        watch = EngineWatch(cell.engines)
        await _play(plan, Stage(plan, cell), watch, rows, out)


async def _play(
    plan: DemoPlan, stage: Stage, watch: EngineWatch, rows: list[ActRow], out: Console
) -> None:
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(watch.watch()), group.create_task(stage.backlog.watch())]
        for act in Act:
            watch.begin_act()
            showing = group.create_task(_animate(plan, stage, watch, rows, out))
            row = await stage.play(act)
            await watch.look()
            rows.append(msgspec.structs.replace(row, replica_tokens=watch.asked_tokens()))
            showing.cancel()
            await asyncio.wait({showing})
        for task in beside:
            task.cancel()


async def _animate(
    plan: DemoPlan, stage: Stage, watch: EngineWatch, rows: list[ActRow], out: Console
) -> None:
    """Redraw the screen until cancelled; draw nothing if there is no terminal."""
    if not out.is_terminal:
        return
    act = list(Act)[len(rows)]
    with Live(console=out, transient=True, auto_refresh=False) as live:
        while True:
            live.update(scene(plan, stage, watch, rows, act), refresh=True)
            await asyncio.sleep(_FRAME_SECONDS)
