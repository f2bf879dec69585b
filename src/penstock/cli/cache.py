"""`penstock cache`: explains a request's cache hits."""

from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.administration import run_operation
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json
from penstock.console.formats import NOTHING
from penstock.console.usage_operations import SHOW_REQUEST, RequestNamed
from penstock.metering.reports.cache_findings import cache_answer
from penstock.wire.resources.cache_findings import CacheAnswer

app = typer.Typer(help="See why a prompt was cached or not.", no_args_is_help=True)


@app.command()
def why(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="REQUEST", help="The request's id (x-request-id).")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Say what broke a request's cache, what was expected of it, and what to do."""
    answer = cache_answer(run_operation(context, state, SHOW_REQUEST, RequestNamed(id=id)))
    if json:
        print_json(answer)
    else:
        print_cache(answer)


def print_cache(answer: CacheAnswer) -> None:
    """Print one line of facts, and a paragraph for each finding."""
    out = console()
    counts = (
        f"prompt {_count(answer.prompt_tokens)}",
        f"cached {_count(answer.cached_tokens)}{'?' if answer.is_cached_estimated else ''}",
        f"expected {_count(answer.cached_expected)}",
    )
    session = f"session {answer.session}" if answer.session else "no session"
    facts = (*counts, f"replica {answer.replica}", session)
    out.print(Text(f"request {answer.request}: {', '.join(facts)}"), soft_wrap=True)
    for finding in answer.findings:
        out.print()
        out.print(Text.assemble((f"{finding.kind}: ", "bold"), finding.said))
        if finding.advice:
            out.print(Text(f"What to do: {finding.advice}", style="cyan"))


def _count(tokens: int | None) -> str:
    return NOTHING if tokens is None else f"{tokens:,}"
