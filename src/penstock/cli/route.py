"""`penstock route`: asks a running gateway to which replica it would send a request."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer
from rich.text import Text

from penstock.cli.exit_codes import CommandFailed
from penstock.cli.http_call import HttpAnswer, HttpCaller
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json, print_table
from penstock.cli.running_gateway import KeyFileOption, UrlOption, gateway_url, read_secret
from penstock.cli.table import Column, Columns
from penstock.config import client_defaults
from penstock.wire.resources.errors import OpenAIErrorAnswer
from penstock.wire.resources.routing import Candidate, RoutingAnswer

app = typer.Typer(help="See how requests are routed.", no_args_is_help=True)

_PATH = "/v1/routing/explain"
_TERMS = tuple(Column(title, is_right=True) for title in ("wait", "own", "harm", "full", "cost"))
_CACHED = Column("cached", is_right=True)
_NOTES = Column("", is_optional=True)
_COLUMNS: Columns = ("", "replica", _CACHED, *_TERMS, Column("in flight", is_right=True), _NOTES)
_RATIO_COLUMNS: Columns = (
    *("", "replica", _CACHED),
    *(Column(title, is_right=True) for title in ("cost", "load")),
    _NOTES,
)


@app.command()
def explain(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A chat request as JSON; - is standard input.")
    ],
    *,
    session: Annotated[str, typer.Option(help="The session it belongs to.")] = "",
    account: Annotated[
        str,
        typer.Option(
            help="Whose request it is; needed with an operator key; PENSTOCK_ACCOUNT if not given."
        ),
    ] = "",
    url: UrlOption = "",
    key_file: KeyFileOption = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show where a request would go now: what each candidate costs, and the choice.

    A runtime key sees costs and loads as ratios; an operator key sees seconds, part by part.
    """
    config = invocation(context).load().config
    body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    caller = HttpCaller(api_keys={"*": read_secret(key_file, state)})
    account = account or client_defaults().account
    path = f"{_PATH}?account={quote(account, safe='')}" if account else _PATH
    headers = {"x-session-affinity": session} if session else {}
    answer = _read(caller.post(gateway_url(url, config, state), path, body, headers))
    if json:
        print_json(answer)
    else:
        print_routing(answer)


def print_routing(answer: RoutingAnswer) -> None:
    """Print a table of the candidates, cheapest first, and the choice in words."""
    is_absolute = any(each.cost_seconds is not None for each in answer.candidates)
    columns = _COLUMNS if is_absolute else _RATIO_COLUMNS
    print_table(columns, (_row(answer, each) for each in answer.candidates))
    out = console()
    out.print()
    out.print(Text.assemble((answer.replica, "bold"), f" ({answer.why}): {answer.reason}"))
    facts = [f"about {answer.prompt_tokens:,} prompt tokens", f"other gateways: {answer.peers}"]
    if answer.session:
        facts.insert(0, f"session {answer.session}")
    if answer.session_moved:
        facts.append(f"the session would move ({answer.session_moved})")
    if answer.cache_break:
        facts.append(f"its cache breaks at: {answer.cache_break}")
    out.print(Text(", ".join(facts)))


def _row(answer: RoutingAnswer, each: Candidate) -> tuple[str | Text, ...]:
    is_chosen = each.replica == answer.replica
    notes = ["last"] if each.replica == answer.last_replica else []
    notes += ["near"] if each.is_near else []
    return (
        Text("→" if is_chosen else "", style="bold green"),
        each.replica,
        f"{each.cached_tokens:,}",
        *_figures(each),
        ", ".join(notes),
    )


def _figures(each: Candidate) -> tuple[str, ...]:
    """Return costs and load: seconds and requests if the gateway gives them, else ratios."""
    if each.cost_seconds is None:
        return (f"{each.cost_ratio:.2f}x", f"{each.load_ratio:.0%}")
    terms = (each.wait_seconds, each.own_seconds, each.harm_seconds, each.full_seconds)
    return (*(_seconds(term or 0.0) for term in (*terms, each.cost_seconds)), str(each.in_flight))


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}ms" if seconds < 1 else f"{seconds:.2f}s"


def _read(answer: HttpAnswer) -> RoutingAnswer:
    try:
        if answer.status == 200:
            return msgspec.json.decode(answer.body, type=RoutingAnswer)
        message = msgspec.json.decode(answer.body, type=OpenAIErrorAnswer).error.message
    except msgspec.DecodeError:
        message = "this is not the answer of a gateway"
    raise CommandFailed(f"The gateway says {answer.status}: {message}")
