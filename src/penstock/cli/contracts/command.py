"""`penstock contracts`: the commands."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.administration import Administration, administer, run_operation
from penstock.cli.contracts.applying import apply_contracts
from penstock.cli.contracts.folder import check_folder, checked_documents, compiled_folder
from penstock.cli.contracts.printing import (
    print_applied,
    print_changes,
    print_effects,
    print_results,
    print_sets,
    read_label,
)
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json
from penstock.cli.period_options import SinceOption, UntilOption
from penstock.console.contract_operations import (
    LIST_CONTRACT_SETS,
    SHOW_CONTRACT,
    SHOW_CONTRACT_SET,
    ContractSetAnswer,
    ContractSetsAnswer,
    SetNamed,
    VersionAsked,
)
from penstock.console.decision_operations import SHOW_CONTRACT_EFFECTS, EffectsAsked
from penstock.console.operation import Nothing
from penstock.contracts.alerts import DOCS_URL, alert_rules
from penstock.contracts.cases import read_cases
from penstock.contracts.differing import ContractChange, differences
from penstock.contracts.reading import read_contract
from penstock.contracts.set_book import Applied
from penstock.contracts.shipped import example_names, example_text
from penstock.intake.contract_cases import run_case

app = typer.Typer(help="Check, apply and show contracts of workflows.", no_args_is_help=True)

_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder with contracts.")]


@app.command()
def example(
    name: Annotated[str, typer.Argument(help="Which; without it, their names.")] = "",
    *,
    cases: Annotated[bool, typer.Option("--cases", help="Print its cases instead.")] = False,
) -> None:
    """Print a contract to start from, or its cases."""
    text = example_text(name, is_cases=cases) if name else "\n".join(example_names()) + "\n"
    typer.echo(text, nl=False)


@app.command()
def check(
    context: typer.Context,
    folder: _Folder,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Check every contract of a folder, without a server. Exit 2 when one is wrong."""
    found = check_folder(context, folder, state)
    if json:
        print_json(sorted(found))
        return
    for name in sorted(found):
        console().print(f"{name}: right", markup=False)


@app.command()
def diff(
    context: typer.Context,
    folder: _Folder,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show what `apply` would change, by what contracts mean and not by how they are written."""
    wanted = check_folder(context, folder, state)
    present = run_operation(context, state, SHOW_CONTRACT_SET, SetNamed(number=0))
    before = {row.name: read_contract(row.document) for row in present.contracts}
    changes: list[ContractChange] = differences(before, wanted)
    if json:
        print_json(changes)
    else:
        print_changes(changes)


@app.command(name="test")
def run_cases(
    context: typer.Context,
    folder: _Folder,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Decide the requests of DIR/cases by the contracts, offline. Exit 1 if any differs."""
    config = invocation(context).load().config
    contracts, catalogue = compiled_folder(context, folder, state)
    cases = read_cases(folder)
    if not cases:
        raise CommandFailed(
            f"{folder}/cases has no case: `penstock contracts example coding-agent --cases` prints"
            " some.",
            ExitCode.USAGE,
        )
    per_token = config.ingress.prompt_bytes_per_token
    results = [run_case(case, contracts, catalogue, per_token) for case in cases]
    if json:
        print_json(results)
    else:
        print_results(results)
    if not all(each.is_passed for each in results):
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def apply(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder with contracts.")
    ] = None,
    *,
    message: Annotated[str, typer.Option(help="Why, for the list of sets.")] = "",
    number: Annotated[
        int | None,
        typer.Option("--set", help="Instead of DIR: an earlier set; 0 lets none be in force."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when every gateway worker decides by it.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also where older gateways or keepers serve without them."),
    ] = False,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Make a folder's contracts, all of them together, the set in force."""
    if (folder is None) is (number is None):
        raise CommandFailed("Pass a folder, or --set N.", ExitCode.USAGE)
    documents = None if folder is None else checked_documents(context, folder, state)

    async def run(desk: Administration) -> Applied:
        return await apply_contracts(
            desk, documents, number, message, is_waiting=wait, is_forced=force
        )

    applied = administer(context, state, run)
    if json:
        print_json(applied)
    else:
        print_applied(applied)


@app.command(name="list")
def list_(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """List the contracts in force, the sets, and gateway workers that decide by another one."""

    async def run(desk: Administration) -> tuple[ContractSetsAnswer, ContractSetAnswer]:
        sets = await desk.run(LIST_CONTRACT_SETS, Nothing())
        return sets, await desk.run(SHOW_CONTRACT_SET, SetNamed(number=0))

    sets, present = administer(context, state, run)
    if json:
        print_json({"sets": sets, "contracts": present.contracts})
    else:
        print_sets(sets, present)


@app.command()
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME[@V]", help="A contract, or a version.")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Print a contract as it was written: the one in force, or one of its versions."""
    wanted, version = read_label(name)
    found = run_operation(context, state, SHOW_CONTRACT, VersionAsked(name=wanted, version=version))
    if json:
        print_json(found)
    else:
        typer.echo(found.document, nl=False)


@app.command()
def effects(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only of this workflow.")] = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show how many requests ran under each contract, and what contracts changed and refused."""
    asked = EffectsAsked(since=since, until=until, account=account, workflow=workflow)
    found = run_operation(context, state, SHOW_CONTRACT_EFFECTS, asked)
    if json:
        print_json(found)
    else:
        print_effects(found)


@app.command()
def alerts(
    context: typer.Context,
    folder: _Folder,
    docs_url: Annotated[
        str, typer.Option(help="Where you serve these docs, for the alerts' runbooks.")
    ] = DOCS_URL,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Print Prometheus rules that alert when a workflow misses its objectives."""
    contracts = check_folder(context, folder, state)
    if not any(each.objectives for each in contracts.values()):
        raise CommandFailed(f"No contract in {folder} has objectives.", ExitCode.USAGE)
    typer.echo(alert_rules(contracts.values(), docs_url), nl=False)
