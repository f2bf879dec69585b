"""`penstock explain`: one request, from what it asked for to what it cost, and what stood out."""

from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.administration import run_operation
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json, print_table
from penstock.cli.table import Cell, Column, Columns
from penstock.cli.usage.charge import charge_line
from penstock.console.formats import NOTHING, dollars, last_part, milliseconds
from penstock.console.incident_operations import EXPLAIN_REQUEST, RequestExplained
from penstock.wire.resources.decisions import DecisionAnswer
from penstock.wire.resources.explanation import ExplanationAnswer, Finding
from penstock.wire.resources.usage import AttemptAnswer, RequestAnswer

_ATTEMPT_COLUMNS: Columns = (
    *("attempt", "replica"),
    *(Column(title, is_right=True) for title in ("waited", "first token", "total")),
    *(Column(title, is_right=True) for title in ("prompt", "cached", "expected", "output")),
    *("outcome", Column("cost", is_right=True)),
)
_TRACE_NOTE = "unless the caller named its own: then the log line of the request has it"
_ABOUT = {
    "refused": "why it failed",
    "slow": "why it was slow",
    "dear": "why it was dear",
    "cache": "its cache",
    "model": "its model",
}


def explain(
    context: typer.Context,
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The request's id (x-request-id), or its trace's.")
    ],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Explain one request: why it was slow, dear, served as it was, or refused."""
    found = run_operation(context, state, EXPLAIN_REQUEST, RequestExplained(id=id))
    if json:
        print_json(found)
        return
    print_explanation(found)
    if found.request is None and not found.decisions:
        raise CommandFailed(
            f"The ledger does not know a request {id}, and no decision is about it. Requests are"
            " there about a second after they ended; `penstock jobs show` knows jobs that wait."
        )


def print_explanation(answer: ExplanationAnswer) -> None:
    """Print the attempts, the decisions, and a paragraph for each finding."""
    out = console()
    if answer.request is None:
        out.print(Text(f"request {answer.id}: nothing is known to have run for it"))
    else:
        _print_request(answer.request)
    out.print(Text(f"trace {answer.own_trace}, {_TRACE_NOTE}", style="dim"), soft_wrap=True)
    if answer.decisions:
        out.print()
        for each in answer.decisions:
            out.print(Text(f"decided: {_decision(each)}"), soft_wrap=True)
    for finding in answer.findings:
        out.print()
        _print_finding(finding)


def _print_request(request: RequestAnswer) -> None:
    out = console()
    last = request.attempts[-1]
    session = f"session {last.session}" if last.session else "no session"
    facts = [
        *(last.outcome, f"${request.cost_usd}", last_part(last.model)),
        *([last.contract] if last.contract else []),
        *([f"workflow {last.workflow}"] if last.workflow else []),
        session,
    ]
    out.print(Text(f"request {request.id}: {', '.join(facts)}"), soft_wrap=True)
    out.print()
    print_table(_ATTEMPT_COLUMNS, [_cells(each) for each in request.attempts])
    out.print(Text(f"charge: {charge_line(last)}", style="dim"), soft_wrap=True)


def _cells(attempt: AttemptAnswer) -> tuple[Cell, ...]:
    return (
        str(attempt.attempt),
        attempt.replica or NOTHING,
        milliseconds(attempt.waited_ms),
        milliseconds(attempt.first_token_ms),
        milliseconds(attempt.duration_ms),
        _count(attempt.prompt_tokens),
        _count(attempt.cached_tokens),
        _count(attempt.cached_expected),
        _count(attempt.output_tokens),
        " ".join(filter(None, (attempt.outcome, attempt.error))),
        dollars(attempt.charge_nanousd),
    )


def _decision(decision: DecisionAnswer) -> str:
    facts = ", ".join(f"{name}={value}" for name, value in decision.facts.items())
    about = " ".join(filter(None, (", ".join(decision.subjects), facts)))
    observed = ", only observed" if decision.is_observed else ""
    reason = f" ({decision.reason})" if decision.reason else ""
    return f"{decision.contract} {decision.verdict} {decision.kind} {about}{reason}{observed}"


def _print_finding(finding: Finding) -> None:
    out = console()
    head = f"{_ABOUT[finding.about]}: "
    out.print(Text.assemble((head, "bold"), finding.said), soft_wrap=True)
    if finding.advice:
        out.print(Text(f"What to do: {finding.advice}", style="cyan"), soft_wrap=True)


def _count(tokens: int | None) -> str:
    return NOTHING if tokens is None else f"{tokens:,}"
