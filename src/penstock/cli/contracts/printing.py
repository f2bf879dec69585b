"""Prints contracts, sets, and what would change, for people."""

from datetime import UTC

from rich.text import Text

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.output import console, print_table
from penstock.cli.table import Column, Columns
from penstock.console.contract_operations import ContractSetAnswer, ContractSetsAnswer
from penstock.console.formats import percent, short
from penstock.contracts.differing import ContractChange
from penstock.contracts.reading import read_contract
from penstock.contracts.set_book import Applied
from penstock.intake.contract_cases import CaseResult
from penstock.wire.resources.contract_effects import ContractEffectsAnswer

_CONTRACTS: Columns = ("contract", "mode", Column("model", is_optional=True), "accounts")
_SETS: Columns = (
    Column("set", is_right=True),
    *("applied", "by"),
    Column("contracts", is_right=True),
    Column("why", is_optional=True),
)
_COLOURS = {"stricter": "green", "looser": "yellow"}


def print_changes(changes: list[ContractChange]) -> None:
    out = console()
    if not changes:
        out.print("nothing would change")
    for change in changes:
        out.print(Text.assemble((change.name, "bold"), f" {change.kind}"))
        for each in change.differences:
            line = Text(f"  {each.key}: {each.before} -> {each.after}")
            if each.means:
                line.append(f"  {each.means}", style=_COLOURS[each.means])
            out.print(line, soft_wrap=True)


def print_results(results: list[CaseResult]) -> None:
    out = console()
    for result in results:
        for name, (wanted, came) in result.differs.items():
            line = f"{result.name}: {name} is {came or 'none'}, not {wanted or 'none'}"
            out.print(Text(line, style="red"), soft_wrap=True)
    passed = sum(1 for each in results if each.is_passed)
    out.print(f"{passed} of {len(results)} cases as expected")


def print_applied(applied: Applied) -> None:
    out = console()
    if not applied.number:
        out.print("no contract is in force")
        return
    for row in applied.contracts:
        note = "" if row.name in applied.changed else ", unchanged"
        out.print(f"{row.name}@{row.version}{note}", markup=False)
    out.print(f"set {applied.number} is in force")


_EFFECTS: Columns = (
    "contract",
    *(Column(title, is_right=True) for title in ("requests", "share", "changed", "refused")),
    Column("observed", is_right=True),
)


def print_sets(sets: ContractSetsAnswer, present: ContractSetAnswer) -> None:
    out = console()
    if not present.number:
        out.print("no contract is in force")
    else:
        rows = []
        for row in present.contracts:
            contract = read_contract(row.document)
            model = contract.models.default if contract.models is not None else ""
            label, accounts = f"{row.name}@{row.version}", ", ".join(sorted(contract.accounts))
            rows.append((label, contract.mode.value, model, accounts))
        print_table(_CONTRACTS, rows)
    if sets.sets:
        print_table(
            _SETS,
            [
                (
                    f"{each.number}{' *' if each.number == sets.in_force else ''}",
                    f"{each.applied_at.astimezone(UTC):%Y-%m-%d %H:%M}",
                    each.actor or "the database",
                    str(each.contracts),
                    each.message,
                )
                for each in sets.sets
            ],
        )
    for worker in sets.workers:
        if worker.set != sets.in_force:
            why = worker.problem or f"it decides by set {worker.set}"
            line = f"gateway worker {worker.holder} on {worker.host}: {why}"
            out.print(Text(line, style="yellow"), soft_wrap=True)


def read_label(label: str) -> tuple[str, int | None]:
    """Split `NAME@V`; the version is None if the label has none."""
    name, at, version = label.rpartition("@")
    if not at:
        return label, None
    if not version.isdigit():
        raise CommandFailed(
            f"{label!r} is no contract: write NAME, or NAME@V with a version.", ExitCode.USAGE
        )
    return name, int(version)


def print_effects(answer: ContractEffectsAnswer) -> None:
    """Print how many requests ran under each contract, and what it changed and refused."""
    whole = sum(each.requests for each in answer.contracts)
    rows = []
    for each in answer.contracts:
        done = [count for count in each.decisions if not count.is_observed]
        observed = sum(count.count for count in each.decisions if count.is_observed)
        rows.append(
            (
                each.contract or "none",
                short(each.requests),
                percent(each.requests / whole if whole else None),
                *(
                    short(sum(count.count for count in done if count.verdict == verdict))
                    for verdict in ("change", "deny")
                ),
                short(observed),
            )
        )
    print_table(_EFFECTS, rows)
