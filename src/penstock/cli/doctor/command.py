"""`penstock doctor`: gathers the checks, prints them, and fails when one fails."""

import asyncio
from pathlib import Path

import msgspec
import typer
from rich.text import Text

from penstock.catalogue import CatalogueError, load_catalogue
from penstock.cli.doctor.cell_key import check_cell_key
from penstock.cli.doctor.check import Check, CheckVerdict, fail, ok, warn
from penstock.cli.doctor.engines import FoundEngine, check_engine
from penstock.cli.doctor.host import check_descriptors, check_disk, check_ports
from penstock.cli.doctor.hosts import check_hosts
from penstock.cli.doctor.mcp_servers import check_mcp_servers
from penstock.cli.doctor.postgres import check_postgres, unreachable
from penstock.cli.doctor.sandbox import check_sandbox
from penstock.cli.doctor.signals import check_signals
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import print_json, print_table
from penstock.cli.postgres import find_dsn
from penstock.cli.roster import read_replicas
from penstock.cli.table import Column
from penstock.cli.up.state import UpState
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.errors import StoreUnavailable
from penstock.fleet.hosts import HostReports
from penstock.fleet.replica_files import StateFolder
from penstock.records.dialect import VLLM
from penstock.records.replica import Replica, ReplicaState
from penstock.store import Sealing, Store, StoreSettings

_COLOURS = {CheckVerdict.OK: "green", CheckVerdict.WARN: "yellow", CheckVerdict.FAIL: "bold red"}


def doctor(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Check Postgres, engines, ports, clock, disk; say what to do. Exit 1 when something fails."""
    config = invocation(context).load().config
    checks = asyncio.run(_look(config, UpState(state)))
    if json:
        print_json(checks)
    else:
        columns = (Column(""), Column("", is_prose=True))
        print_table(columns, [row for check in checks for row in _rows(check)])
    if any(check.verdict is CheckVerdict.FAIL for check in checks):
        raise typer.Exit(ExitCode.FAILED)


async def _look(config: Config, state: UpState) -> list[Check]:
    checks, replicas = await _look_at_postgres(config, state)
    keys = {replica.url: replica.engine_key for replica in replicas if replica.engine_key}
    checks.append(await check_signals(config, {replica.host for replica in replicas}))
    checks.append(_catalogue(config))
    engine = config.engine
    caller = HttpCaller(api_keys=engine.api_keys | keys, ca_file=engine.ca_file, seconds=60)
    engines = _engines(config, state, replicas)
    if not engines:
        advice = "Start one with `penstock up`, or name some in fleet.replicas."
        checks.append(warn("engines", "there is no replica", advice))
    for found in engines:
        checks += await asyncio.to_thread(check_engine, caller, found)
    checks += await check_mcp_servers(config.tools)
    ingress = config.ingress
    running = state.read_running()
    if running is not None and state.is_held:
        # The present run may have other ports than the configuration.
        ingress = msgspec.structs.replace(
            ingress, host=running.host, port=running.port, metrics_port=running.metrics_port
        )
    checks += await asyncio.to_thread(check_ports, ingress)
    checks.append(check_disk(state.root))
    checks.append(check_descriptors(ingress))
    checks += await asyncio.to_thread(check_sandbox, config.sandbox)
    return checks


async def _look_at_postgres(
    config: Config, state: UpState
) -> tuple[list[Check], tuple[Replica, ...]]:
    try:
        dsn = find_dsn(config, state.root)
    except CommandFailed as failure:
        return [unreachable(str(failure))], ()
    store = Store(msgspec.structs.replace(config.store, dsn=dsn))
    await store.open()
    try:
        checks = await check_postgres(store, dsn, SystemClock())
        if any(check.verdict is CheckVerdict.FAIL for check in checks):
            return checks, ()
        settings = _store_settings(config, state)
        checks.append(await check_cell_key(store, settings))
        replicas = await read_replicas(store, config, Sealing(store, settings))
        checks += check_hosts(await HostReports(store).read(), replicas)
        return checks, replicas
    except StoreUnavailable as failure:
        return [unreachable(failure.message)], ()
    finally:
        await store.close()


def _store_settings(config: Config, state: UpState) -> StoreSettings:
    """Return the store's settings; without a key of their own, with that of `penstock up`."""
    if config.store.cell_key_file or not state.cell_key.exists():
        return config.store
    return msgspec.structs.replace(config.store, cell_key_file=str(state.cell_key))


def _catalogue(config: Config) -> Check:
    try:
        catalogue = load_catalogue(config.catalogue)
    except CatalogueError as wrong:
        return fail("catalogue", str(wrong), "Correct that entry; `penstock models check` helps.")
    return ok("catalogue", f"{len(catalogue.models)} models")


def _engines(config: Config, state: UpState, replicas: tuple[Replica, ...]) -> list[FoundEngine]:
    """Return the roster's engines, and attached ones that no keeper has taken over yet."""
    commands = _commands(state.fleet) | _commands(Path(config.fleet.state_folder))
    engines = {
        replica.url: FoundEngine(
            url=replica.url,
            model=replica.model,
            served_name=replica.served_name,
            is_ready=replica.state is not ReplicaState.STARTING,
            dialect=replica.dialect,
            argv=commands.get(replica.id, ()),
        )
        for replica in replicas
        if replica.url
    }
    for wanted in config.fleet.replicas:
        url = wanted.url.rstrip("/")
        if url and url not in engines:
            dialect = wanted.dialect or VLLM
            engines[url] = FoundEngine(url=url, model=wanted.model, dialect=dialect)
    return list(engines.values())


def _commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the command lines of the engines that a keeper of this machine has started."""
    try:
        return {file.id: file.argv for file in StateFolder(folder).read_all()}
    except OSError:
        return {}


def _rows(check: Check) -> list[tuple[Text, Text]]:
    """Return a row for the finding, and one below it for the advice."""
    verdict = Text(check.verdict, style=_COLOURS[check.verdict])
    rows = [(verdict, Text.assemble((check.name, "bold"), ": ", check.finding))]
    if check.advice:
        rows.append((Text(), Text(check.advice, style="cyan")))
    return rows
