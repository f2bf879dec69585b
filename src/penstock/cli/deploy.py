"""`penstock deploy`: plans, applies, watches and rolls back deployments."""

import tomllib
from datetime import UTC
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from penstock.cli.administration import Administration, administer, run_operation
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.console.deployment_operations import (
    APPLY_DEPLOYMENTS,
    LIST_DEPLOYMENTS,
    LIST_REVISIONS,
    PAUSE_DEPLOYMENT,
    PLAN_DEPLOYMENTS,
    REMOVE_DEPLOYMENT,
    RESUME_DEPLOYMENT,
    ROLL_BACK,
    SCALE_DEPLOYMENT,
    AppliedAnswer,
    DeploymentNamed,
    DeploymentsApplied,
    DeploymentsAsked,
    RollbackAsked,
    ScaleAsked,
)
from penstock.console.formats import last_part
from penstock.console.operation import Nothing
from penstock.fleet.cell.deployments import ShownDeployment
from penstock.fleet.cell.planning import PlannedChange
from penstock.records.deployment import ReplicaRange

app = typer.Typer(help="Deploy models on hosts, and roll out changes.", no_args_is_help=True)

_STATUS: Columns = (
    *("deployment", "model", "stage"),
    *(Column(title, is_right=True) for title in ("ready", "wanted", "revision")),
    Column("why", is_optional=True),
)
_HISTORY: Columns = (
    Column("revision", is_right=True),
    *("made", "by"),
    Column("why", is_optional=True),
)
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The deployment's name.")]
_File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A TOML file with [deployment.NAME] tables.")
]
_WHY = typer.Option("--why", help="Why, for the history.")


@app.command()
def plan(
    context: typer.Context,
    file: _File,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show what `apply` would change, where replicas would go, and what would find no place."""
    asked = DeploymentsAsked(deployments=_read(file, "").deployments)
    found = run_operation(context, state, PLAN_DEPLOYMENTS, asked)
    if json:
        print_json(found.changes)
        return
    for change in found.changes:
        _print_change(change)


@app.command()
def apply(
    context: typer.Context,
    file: _File,
    *,
    why: Annotated[str, _WHY] = "",
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Write the deployments of a file, all or none. Control then starts and replaces replicas."""
    wanted = _read(file, why)

    async def run(desk: Administration) -> AppliedAnswer:
        present = (await desk.run(LIST_DEPLOYMENTS, Nothing())).deployments
        base = {each.name: each.revision for each in present if each.name in wanted.deployments}
        return await desk.run(APPLY_DEPLOYMENTS, msgspec.structs.replace(wanted, base=base))

    answer = administer(context, state, run)
    if json:
        print_json(answer)
        return
    for each in answer.deployments:
        is_changed = each.name in answer.changed
        said = f"revision {each.revision}" if is_changed else "unchanged"
        console().print(f"{each.name}: {said}", markup=False)


@app.command()
def status(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show every deployment: replicas that are wanted and ready, and how its rollout stands."""
    found = run_operation(context, state, LIST_DEPLOYMENTS, Nothing()).deployments
    if json:
        print_json(found)
    else:
        print_table(_STATUS, [_cells(each) for each in found])


@app.command()
def history(
    context: typer.Context,
    name: _Name,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List a deployment's revisions, newest first: who made them, when and why."""
    found = run_operation(context, state, LIST_REVISIONS, DeploymentNamed(name=name)).revisions
    if json:
        print_json(found)
        return
    rows = [
        (
            str(each.revision),
            f"{each.made_at.astimezone(UTC):%Y-%m-%d %H:%M}",
            each.made_by or "the database",
            each.why,
        )
        for each in found
    ]
    print_table(_HISTORY, rows)


@app.command()
def rollback(
    context: typer.Context,
    name: _Name,
    *,
    to: Annotated[
        int | None, typer.Option("--to", help="The revision; the one before if not given.")
    ] = None,
    why: Annotated[str, _WHY] = "",
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Make an earlier revision the newest again; its replicas come back as in any rollout."""
    asked = RollbackAsked(name=name, revision=to, why=why)
    _print(run_operation(context, state, ROLL_BACK, asked), json)


@app.command()
def scale(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    name: _Name,
    count: Annotated[int, typer.Argument(metavar="N", help="Replicas, at least.")],
    *,
    most: Annotated[int | None, typer.Option("--max", help="Replicas, at most; N.")] = None,
    why: Annotated[str, _WHY] = "",
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Change how many replicas a deployment gets. Replicas that stay are not restarted."""
    if count < 0 or (most is not None and most < count):
        raise CommandFailed("N is 0 or more, and --max is not less than N.", ExitCode.USAGE)
    replicas = ReplicaRange(count, count if most is None else most)
    asked = ScaleAsked(name=name, replicas=replicas, why=why)
    _print(run_operation(context, state, SCALE_DEPLOYMENT, asked), json)


@app.command()
def pause(
    context: typer.Context,
    name: _Name,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Let a deployment stand as it is: no rollout, no scaling. What is lost is replaced."""
    _print(run_operation(context, state, PAUSE_DEPLOYMENT, DeploymentNamed(name=name)), json)


@app.command()
def resume(
    context: typer.Context,
    name: _Name,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Let a paused deployment go on."""
    _print(run_operation(context, state, RESUME_DEPLOYMENT, DeploymentNamed(name=name)), json)


@app.command()
def remove(
    context: typer.Context,
    name: _Name,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """End all replicas of a deployment when their requests have finished, and forget it."""
    removed = run_operation(context, state, REMOVE_DEPLOYMENT, DeploymentNamed(name=name))
    if json:
        print_json(removed)
    else:
        console().print(f"{removed.name}: its replicas end", markup=False)


def _read(file: Path, why: str) -> DeploymentsApplied:
    """Read a file of deployments; a fault in it is one line."""
    try:
        tree = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as bad:
        raise CommandFailed(f"{file} is not valid TOML: {bad}", ExitCode.USAGE) from None
    unknown = sorted(set(tree) - {"deployment"})
    if unknown or not tree.get("deployment"):
        what = f"`{unknown[0]}`" if unknown else "nothing"
        raise CommandFailed(f"{file} has {what}: write tables [deployment.NAME].", ExitCode.USAGE)
    try:
        fields = {"deployments": tree["deployment"], "why": why}
        return msgspec.convert(fields, DeploymentsApplied)
    except msgspec.ValidationError as bad:
        raise CommandFailed(f"{file}: {bad}", ExitCode.USAGE) from None


def _print(found: ShownDeployment, json: bool) -> None:
    if json:
        print_json(found)
    else:
        print_table(_STATUS, [_cells(found)])


def _print_change(change: PlannedChange) -> None:
    out = console()
    kinds = {"create": "is created", "change": f"changes (revision {change.revision})"}
    out.print(Text.assemble((change.name, "bold"), f" {kinds.get(change.kind, 'is as it is')}"))
    for field, (before, after) in change.differs.items():
        out.print(f"  {field}: {before} -> {after}", markup=False, soft_wrap=True)
    for host, count in change.places.items():
        out.print(f"  {count} on {host}", markup=False)
    if change.waits:
        out.print(f"  without a place: {change.waits}", style="yellow", markup=False)


def _cells(each: ShownDeployment) -> tuple[str, ...]:
    stage = f"{each.stage}, paused" if each.is_paused else each.stage
    bounds = each.spec.replicas
    wanted = str(each.target) if bounds.min == bounds.max else f"{each.target} of {bounds.max}"
    return (
        each.name,
        last_part(each.model),
        stage,
        str(each.ready),
        wanted,
        str(each.revision),
        "; ".join(filter(None, _reasons(each))),
    )


def _reasons(each: ShownDeployment) -> tuple[str, ...]:
    """Return all that a deployment has to say of itself."""
    return (each.reason, each.target_reason, each.waits, each.fetches, each.pending)
