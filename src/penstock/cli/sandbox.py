"""`penstock sandbox`: holds containers for gateways, and makes the image that they run.

It reads the settings of `sandbox` and `telemetry` and no others: a host that runs code which nobody
trusts has no business with the database's address or the cell's key.
"""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from penstock.app.sandbox_process import run_sandbox
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.options import JsonOption, ParentOption, invocation
from penstock.cli.output import console, print_json
from penstock.cli.parent_watch import end_with_parent
from penstock.cli.stop_signals import StopSignals
from penstock.clock import SystemClock
from penstock.sandbox.host import SandboxProblem
from penstock.sandbox.image import PACKAGES, ImageProblem, make_image
from penstock.sandbox.settings import SandboxSettings
from penstock.telemetry import log

app = typer.Typer(invoke_without_command=True)

DevOption = Annotated[
    bool, typer.Option("--dev", help="Run code without isolation, for development on loopback.")
]


@app.callback()
def group(context: typer.Context, dev: DevOption = False, parent_pid: ParentOption = 0) -> None:
    """Run code that models write, in containers on this host, until SIGTERM."""
    if context.invoked_subcommand is not None:
        return
    config = invocation(context).load_only("sandbox", "telemetry").config
    log.set_up_service(config.telemetry)
    try:
        asyncio.run(_run(config.sandbox, parent_pid, is_dev=dev))
    except SandboxProblem as problem:
        raise CommandFailed(str(problem)) from None


@app.command(name="image")
def image(
    folder: Annotated[Path, typer.Argument(help="A new folder; all users must be able to enter.")],
    bare: Annotated[
        bool, typer.Option("--bare", help="Only Python's own library: no download.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Make the folder that containers have their Python and its packages from."""
    packages = () if bare else PACKAGES
    try:
        made = make_image(folder, packages)
    except ImageProblem as problem:
        raise CommandFailed(str(problem)) from None
    if json:
        print_json(made)
        return
    out = console()
    out.print(f"{folder}: {made.python}, {made.bytes / 2**20:.0f} MiB, {made.files} files")
    for package in made.packages:
        out.print(f"  {package}")


async def _run(settings: SandboxSettings, parent_pid: int, *, is_dev: bool) -> None:
    signals = StopSignals()
    if parent_pid:
        end_with_parent(parent_pid)
    await run_sandbox(settings, SystemClock(), signals.asked, is_dev=is_dev)
