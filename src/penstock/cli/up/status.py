"""`penstock status`: what a `penstock up` runs on this machine, and what it did in 24 hours."""

import asyncio
from pathlib import Path

import msgspec
import typer

from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json, print_table
from penstock.cli.postgres import opened
from penstock.cli.roster import read_replicas
from penstock.cli.table import Column
from penstock.cli.up.present_run import present_run
from penstock.cli.up.ready import console_url, local_address
from penstock.cli.up.state import Running
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.console.formats import dollars, last_part
from penstock.fleet.processes import is_running
from penstock.metering.reports.usage_reports import UsageReports
from penstock.queue import Queue
from penstock.wire.resources.usage_query import read_usage_query


class ShownReplica(msgspec.Struct, frozen=True):
    """One replica of the roster."""

    id: str
    model: str
    state: str
    url: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. Money is of the last 24 hours."""

    base_url: str
    # Where operators reach control; "" if nowhere.
    operator_url: str
    # Where they look at the cell; "" if control serves no pages.
    console_url: str
    state: str
    default_model: str
    processes: dict[str, int]
    replicas: list[ShownReplica]
    jobs_queued: int
    jobs_running: int
    requests: int
    failed: int
    cost_nanousd: int


def status(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show what runs here: addresses, processes, replicas, jobs, and 24 hours of use.

    Ends with 4 if no `penstock up` runs in the folder.
    """
    running = present_run(state)
    found = asyncio.run(_status(invocation(context).load().config, state, running))
    if json:
        print_json(found)
    else:
        _print(found)


async def _status(config: Config, state: Path, running: Running) -> Status:
    async with opened(config, state) as store:
        replicas = await read_replicas(store, config)
        async with store.transaction() as transaction:
            queues = (await Queue(config.queue).stats(transaction)).values()
        query = read_usage_query([("group_by", "model")], SystemClock().now())
        rows = (await UsageReports(store, config.metering).usage(query)).rows
    marks, port = running.processes, running.control_port
    return Status(
        base_url=f"http://{local_address(running.host)}:{running.port}",
        operator_url=f"http://{config.control.host}:{port}" if port else "",
        console_url=console_url(config, port) or "",
        state=str(state),
        default_model=running.default_model,
        processes={each.name: each.pid for each in marks if is_running(each.pid, each.started)},
        replicas=[ShownReplica(r.id, r.model, r.state.value, r.url) for r in replicas],
        jobs_queued=sum(each.queued for each in queues),
        jobs_running=sum(each.running for each in queues),
        requests=sum(row.requests for row in rows),
        failed=sum(row.failed for row in rows),
        cost_nanousd=sum(row.cost_nanousd for row in rows),
    )


def _print(found: Status) -> None:
    out = console()
    processes = ", ".join(f"{name} {pid}" for name, pid in found.processes.items())
    rows = {
        "OpenAI": f"{found.base_url}/v1",
        "Operators": f"{found.operator_url}/operator/v1",
        "Console": found.console_url,
        "Key": f"in {found.state}/account.json",
        "Default": found.default_model,
        "Processes": processes,
        "Jobs": f"{found.jobs_queued} queued, {found.jobs_running} running",
        "24 hours": f"requests {found.requests}, failed {found.failed}, cost "
        + dollars(found.cost_nanousd),
    }
    if not found.operator_url:
        del rows["Operators"]
    if not found.console_url:
        del rows["Console"]
    for title, value in rows.items():
        out.print(f"{title:11}{value}", markup=False, soft_wrap=True)
    out.print()
    print_table(
        ("replica", "state", "model", Column("address", is_optional=True)),
        [
            (r.id, r.state, last_part(r.model), r.url.removeprefix("http://"))
            for r in found.replicas
        ],
    )
