"""`penstock logs`: the logs of what `penstock up` started."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, StateOption
from penstock.cli.output import print_table
from penstock.cli.table import Column
from penstock.cli.up.state import UpState


def logs(
    name: Annotated[
        str | None, typer.Argument(help="A process of ours, or a replica's id; none: list them.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many, at most.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C, with what is written.")
    ] = False,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Print the end of a log: gateway, keeper, control, postgres, or a replica's engine."""
    known = find_logs(UpState(state))
    if name is None:
        columns = ("name", Column("file", is_optional=True))
        print_table(columns, [(each, str(path)) for each, path in known.items()])
        return
    path = known.get(name)
    if path is None:
        raise CommandFailed(
            f"There is no log {name}. Those of {state} are: {', '.join(known) or 'none'}.",
            ExitCode.NOT_FOUND,
        )
    program = shutil.which("tail")
    if program is None:
        raise CommandFailed(f"`tail` is not installed; the log is {path}.")
    following = ["-F"] if follow else []
    command = [program, "-n", str(lines), *following, str(path)]
    raise typer.Exit(subprocess.run(command, stdout=sys.stdout, check=False).returncode)  # noqa: S603 - our own file


def find_logs(state: UpState) -> dict[str, Path]:
    """Return the log files by name: our processes', then those of replicas that run."""
    found = {path.stem: path for path in sorted(state.logs.glob("*.log"))}
    postgres = state.postgres / "postgres.log"
    if postgres.exists():
        found["postgres"] = postgres
    engines = sorted((state.fleet / "replicas").glob("*/engine.log"))
    return found | {path.parent.name: path for path in engines}
