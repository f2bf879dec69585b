"""`penstock hosts`: lists hosts with their GPUs, cordons and drains them."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.administration import run_operation
from penstock.cli.job_watch import age
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.console.fleet_operations import (
    CORDON_HOST,
    DRAIN_HOST,
    LIST_HOSTS,
    LIST_REPLICAS,
    UNCORDON_HOST,
    HostNamed,
    HostsAnswer,
    ReplicasAsked,
)
from penstock.console.operation import Nothing, Operation
from penstock.fleet.hosts import SeenHost

app = typer.Typer(help="See hosts, and keep replicas off them.", no_args_is_help=True)

# A keeper reports its host every 5 s.
_SILENT_SECONDS = 20.0
_COLUMNS: Columns = (
    *("host", "state"),
    *(Column(title, is_right=True) for title in ("GPUs", "held", "replicas")),
    *(Column(title, is_optional=True) for title in ("labels", "address", "waits")),
)
_Host = Annotated[str, typer.Argument(metavar="HOST", help="The host's name.")]


@app.command(name="list")
def list_(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """List the hosts: their GPUs, how many replicas hold, and what waits for room or weights."""
    hosts = run_operation(context, state, LIST_HOSTS, Nothing()).hosts
    if json:
        print_json(hosts)
        return
    replicas = run_operation(context, state, LIST_REPLICAS, ReplicasAsked()).replicas
    rows = []
    for host in hosts:
        own = [replica for replica in replicas if replica.host == host.report.name]
        held = {gpu for replica in own for gpu in replica.gpus}
        rows.append(_cells(host, len(held), len(own)))
    print_table(_COLUMNS, rows)


@app.command()
def cordon(
    context: typer.Context,
    host: _Host,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Start nothing new on a host; what runs there goes on."""
    _change(context, state, CORDON_HOST, host, json=json)


@app.command()
def uncordon(
    context: typer.Context,
    host: _Host,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Let a cordoned or drained host start replicas again."""
    _change(context, state, UNCORDON_HOST, host, json=json)


@app.command()
def drain(
    context: typer.Context,
    host: _Host,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Start nothing new on a host, and end its replicas when their requests have finished."""
    _change(context, state, DRAIN_HOST, host, json=json)


def _change(
    context: typer.Context,
    state: Path,
    operation: Operation[HostNamed, HostsAnswer],
    host: str,
    *,
    json: bool,
) -> None:
    hosts = run_operation(context, state, operation, HostNamed(host=host)).hosts
    if json:
        print_json(hosts)
        return
    for each in hosts:
        console().print(f"host {each.report.name} {_state(each)}", markup=False, soft_wrap=True)


def _cells(host: SeenHost, held: int, replicas: int) -> tuple[str, ...]:
    report = host.report
    return (
        report.name,
        _state(host),
        str(len(report.gpus)),
        str(held),
        str(replicas),
        " ".join(f"{name}={value}" for name, value in sorted(report.labels.items())),
        report.address,
        "; ".join(
            f"{model}: {reason}" for model, reason in (report.waiting | report.fetching).items()
        ),
    )


def _state(host: SeenHost) -> str:
    if host.silent_seconds > _SILENT_SECONDS:
        return f"silent for {age(host.silent_seconds)}"
    if host.is_draining:
        return "draining"
    return "cordoned" if host.is_cordoned else "ready"
