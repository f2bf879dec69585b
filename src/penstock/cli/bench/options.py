"""The options of `penstock bench`, each with its help and its bounds."""

from pathlib import Path
from typing import Annotated

import typer

Url = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URL",
        help="An OpenAI-compatible address; of several, each takes a request in turn; PENSTOCK_URL,"
        " with PENSTOCK_KEY, if none is given.",
    ),
]
Key = Annotated[str, typer.Option(help="The API key, where one is wanted.")]
KeyFile = Annotated[
    Path | None, typer.Option(help="A file with the key, so that no process list shows it.")
]
CaFile = Annotated[str, typer.Option(help="A PEM file with the authority of an https address.")]
Model = Annotated[
    str, typer.Option(help="The model; the first that the address lists if not given.")
]
Affinity = Annotated[
    bool, typer.Option("--affinity/--no-affinity", help="Send `x-session-affinity` with each turn.")
]
Sessions = Annotated[int, typer.Option(help="Agent sessions.", min=1, max=100_000)]
Turns = Annotated[int, typer.Option(help="Turns of a session.", min=1, max=1_000)]
SystemTokens = Annotated[
    int, typer.Option(help="Tokens that all sessions begin with.", min=0, max=1_000_000)
]
FirstTokens = Annotated[
    int, typer.Option(help="Tokens of a session's first message.", min=1, max=1_000_000)
]
TurnTokens = Annotated[
    int, typer.Option(help="Tokens that each later turn adds.", min=1, max=1_000_000)
]
OutputTokens = Annotated[
    int, typer.Option(help="Tokens asked for; with a trace the most of them.", min=1, max=100_000)
]
Think = Annotated[float, typer.Option(help="Seconds between turns, on average.", min=0, max=3_600)]
Rate = Annotated[
    float,
    typer.Option(help="Sessions that begin each second; 0 = all at once.", min=0, max=100_000),
]
TraceFile = Annotated[
    Path | None, typer.Option(help="Send the requests of this trace instead of sessions.")
]
Speed = Annotated[
    float, typer.Option(help="How many times as fast as the trace.", min=0.001, max=100_000)
]
Concurrency = Annotated[
    int, typer.Option(help="Sessions under way at once, at most.", min=1, max=10_000)
]
Requests = Annotated[int, typer.Option(help="Requests in all, at most.", min=1, max=1_000_000)]
Seconds = Annotated[float, typer.Option(help="End after so long.", min=0.1, max=86_400)]
Timeout = Annotated[
    float, typer.Option(help="Seconds that one answer may take.", min=0.1, max=86_400)
]
PromptTokensMax = Annotated[
    int, typer.Option(help="No prompt is longer than this.", min=1, max=10_000_000)
]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Answers of full length; vLLM only.")]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="What the texts are made of, to send the same again; a new one each run if not given.",
    ),
]
PriceInput = Annotated[str | None, typer.Option(help="Dollars for a million prompt tokens.")]
PriceCached = Annotated[
    str | None, typer.Option(help="The same of cached ones; as --price-input if not given.")
]
PriceOutput = Annotated[str | None, typer.Option(help="Dollars for a million tokens of answers.")]
PlotFile = Annotated[Path | None, typer.Option(help="Draw first tokens into this .png file.")]
JsonFile = Annotated[
    str | None,
    typer.Option(help="Write figures and samples to this file as JSON; - is standard output."),
]
