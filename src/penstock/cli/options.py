"""Options that several commands share, and the options of the root command."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from penstock.config import Loaded, load

DEFAULT_STATE = Path(".penstock")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
StateOption = Annotated[
    Path,
    typer.Option("--state", help="The folder of `penstock up`, where its Postgres is found."),
]
ParentOption = Annotated[
    int,
    typer.Option("--parent-pid", help="End when this process ends; `penstock up` passes its own."),
]


class Invocation(msgspec.Struct, frozen=True):
    """The options that stand before the command's name."""

    file: Path | None = None

    def load(self) -> Loaded:
        return load(self.file)

    def load_only(self, *rooms: str) -> Loaded:
        """Read the settings of these rooms, and no others."""
        return load(self.file, rooms=rooms)


def invocation(context: typer.Context) -> Invocation:
    """Return the root command's options, from any command below it."""
    found = context.find_object(Invocation)
    assert found is not None, "the root command makes one"
    return found
