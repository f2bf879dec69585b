"""`penstock models fetch`: brings a model's weights to this host, with a bar of how far it is."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, error_console, print_json
from penstock.cli.up.known_models import known_models
from penstock.cli.up.state import UpState
from penstock.clock import Clock, SystemClock
from penstock.config import Loaded
from penstock.fleet.weights.fetch import fetch, in_gigabytes, limits_of_fetch
from penstock.fleet.weights.open_source import open_source
from penstock.fleet.weights.weight_files import FetchFailed
from penstock.fleet.weights.weight_folder import bytes_in, folder_of

_LINE_SECONDS: Final = 10.0


def fetch_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="MODEL", help="The model's id or alias.")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Bring a model's weights to this host. After Ctrl-C, the next fetch goes on from there."""
    loaded = invocation(context).load()
    model = known_models(loaded.config, state).find(name)
    weights = model.recipe.weights
    if not weights:
        raise CommandFailed(
            f"The recipe of {model.id} does not say where its weights come from: write a"
            " [recipe.weights] table.",
            ExitCode.USAGE,
        )
    folder = folder_of(_weights_folder(loaded, state), weights.source)
    config = loaded.config
    shown = FetchLine(error_console(), SystemClock(), model.id)
    try:
        with shown.bar:
            source = open_source(weights.source, config.store)
            fetch(weights, folder, source, limits_of_fetch(config.fleet), shown)
    except FetchFailed as failed:
        raise CommandFailed(f"Cannot fetch the weights of {model.id}: {failed}.") from None
    except KeyboardInterrupt:
        raise CommandFailed(
            f"Stopped at {in_gigabytes(shown.done)} of {in_gigabytes(shown.total)} GB. Fetch again"
            " to go on from there."
        ) from None
    if json:
        print_json({"model": model.id, "source": weights.source, "folder": str(folder)})
        return
    size = in_gigabytes(bytes_in(folder))
    console().print(f"{model.id}: {size} GB in {folder}", markup=False, soft_wrap=True)


class FetchLine:
    """Draws a bar on a terminal; elsewhere prints a line every ten seconds."""

    def __init__(self, out: Console, clock: Clock, model: str) -> None:
        self._out = out
        self._clock = clock
        self._model = model
        self._printed_at = clock.monotonic()
        self._task: TaskID | None = None
        self.done = 0
        self.total = 0
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=out,
            disable=not out.is_terminal,
        )

    def on_bytes(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self._task is None:
            self._task = self.bar.add_task(self._model)
        self.bar.update(self._task, completed=done, total=total)
        now = self._clock.monotonic()
        if not self._out.is_terminal and now - self._printed_at >= _LINE_SECONDS:
            self._printed_at = now
            so_far = f"{in_gigabytes(done)} of {in_gigabytes(total)} GB"
            self._print(f"{self._model}: {so_far}")

    def on_wait(self) -> None:
        self._print("Another process fetches these weights on this host; waiting for it.")

    def is_stopped(self) -> bool:
        return False

    def _print(self, line: str) -> None:
        self._out.print(line, markup=False, soft_wrap=True)


def _weights_folder(loaded: Loaded, state: Path) -> str:
    """Return where this host's keeper looks: that of the `up` in `state`, unless one is set."""
    up = UpState(state)
    if "fleet.weights_folder" not in loaded.sources and up.fleet.is_dir():
        return str(up.weights)
    return loaded.config.fleet.weights_folder
