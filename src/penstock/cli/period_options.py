"""The options of commands that report about a period."""

from typing import Annotated

import typer

SinceOption = Annotated[
    str | None,
    typer.Option(help="A date, an RFC 3339 time or an age (12h, 7d); 24 h before --until."),
]
UntilOption = Annotated[
    str | None, typer.Option(help="Up to this time, not including it; now if not given.")
]
