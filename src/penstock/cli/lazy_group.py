"""A group whose commands are imported when they are run.

All rooms together take a second of CPU to import; `--help` and `--version` need none of them.
"""

from importlib import import_module
from typing import Any

import typer
from typer.main import get_command, get_group

from penstock.cli.help_page import PlainCommand, PlainGroup


class LazyCommand(PlainCommand):
    """Stands for a command in the list of commands, and imports it with `load`.

    `place` is `module:name`, the name of a function or of a typer.Typer. `help` repeats the first
    paragraph of the command's own help, so that the list needs no import.
    """

    def __init__(self, name: str, place: str, help: str, *, hidden: bool = False) -> None:
        super().__init__(name, help=help, hidden=hidden)
        self._place = place

    def load(self) -> Any:  # noqa: ANN401 - click's command, which typer vendors
        module, _, attribute = self._place.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(name=self.name, cls=PlainCommand)(found)
            return get_command(alone)
        found.info.cls = PlainGroup
        for command in found.registered_commands:
            command.cls = PlainCommand
        group = get_group(found)
        group.name, group.hidden = self.name, self.hidden
        return group


class LazyGroup(PlainGroup):
    """Replaces a LazyCommand by the command itself when that is run or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - typer's own signature
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and isinstance(command, LazyCommand):
            command = self.commands[name] = command.load()
        return name, command, rest

    def load_all(self) -> None:
        """Import every command, for documentation and tests that look at the whole tree."""
        for name, command in self.commands.items():
            if isinstance(command, LazyCommand):
                self.commands[name] = command.load()
