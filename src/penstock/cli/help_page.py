"""The help pages of all commands: options without Python's types, and examples to copy.

They are plain text that fits into 80 columns. Typer's own pages take twice the CPU to draw.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from penstock.cli.examples import EXAMPLES, Example


class PlainCommand(TyperCommand):
    """A command with our help page, which also takes the root command's `--config`."""

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 - typer's own signature
        super().__init__(*args, **{**settings, "rich_markup_mode": None})
        self.params.append(_config_option())

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own signature
        return _usage_pieces(self)

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own signature
        _write_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own signature
        _write_examples(EXAMPLES.get(_path(ctx), ()), formatter)


class PlainGroup(TyperGroup):
    """The same for a group of commands; without examples of its own it shows two of theirs."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own signature
        super().__init__(**{**settings, "rich_markup_mode": None})
        if all("--config" not in parameter.opts for parameter in self.params):
            self.params.append(_config_option())

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own signature
        _write_parameters(self, ctx, formatter)
        listed = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        rows = [(name, _first_line(each.help)) for name, each in listed if not each.hidden]
        with formatter.section(_bold("Commands")):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own signature
        path = _path(ctx)
        _write_examples(EXAMPLES.get(path) or self._theirs(path), formatter)

    def _theirs(self, path: str) -> list[Example]:
        """Return the first example of two commands, or both of the only one."""
        of_each = [EXAMPLES[f"{path} {name}"] for name in self.commands]
        return [examples[number] for number in (0, 1) for examples in of_each][:2]


def _value_word(parameter: Any) -> str:  # noqa: ANN401 - typer's parameter
    """Return the word that stands for an option's value: its choices, N, PATH or TEXT."""
    kind = parameter.type_descriptor
    if parameter.metavar is not None:
        return str(parameter.metavar)
    if kind.is_choice:
        return "|".join(str(getattr(choice, "value", choice)) for choice in kind.choices)
    if kind.is_path:
        return "PATH"
    return "N" if kind.annotation in {int, float} else "TEXT"


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's objects
    shown = [each for each in command.get_params(ctx) if not each.hidden]
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [_row(each, ctx) for each in shown if each.param_type_name == kind]
        if rows:
            with formatter.section(_bold(title)):
                formatter.write_dl(rows, col_max=26)


def _row(parameter: Any, ctx: Any) -> tuple[str, str]:  # noqa: ANN401 - typer's parameter
    if parameter.param_type_name == "argument":
        name = parameter.display_name_raw.upper().strip("[]")
    else:
        # One dash before two, as every manual page has it.
        name = ", ".join(sorted(parameter.opts, key=len))
        name += "".join(f" / {other}" for other in parameter.secondary_opts)
        name += "" if parameter.is_flag else f" {_value_word(parameter)}"
    facts = ["required"] if parameter.required else _default(parameter, ctx)
    if parameter.min is not None and parameter.max is not None:
        facts.append(f"{parameter.min} to {parameter.max}")
    words = [parameter.help or "", f"[{'; '.join(facts)}]" if facts else ""]
    return name, "  ".join(word for word in words if word)


def _default(parameter: Any, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's parameter
    default = parameter.get_default(ctx, call=False)
    if default in (None, "", False):
        return []
    return [f"default: {'on' if default is True else getattr(default, 'value', default)}"]


def _usage_pieces(command: Any) -> list[str]:  # noqa: ANN401 - typer's command
    """Return the words behind the command's name, as manual pages write them."""
    pieces = ["[OPTIONS]"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = parameter.display_name_raw.upper().strip("[]")
            several = "..." if parameter.nargs != 1 else ""
            pieces.append(f"{name}{several}" if parameter.required else f"[{name}{several}]")
    return pieces


def _write_examples(examples: Sequence[Example], formatter: Any) -> None:  # noqa: ANN401 - click's formatter
    if not examples:
        return
    with formatter.section(_bold("Examples")):
        for command, what in examples:
            # Not wrapped: a command is one line to copy.
            formatter.write(f"  {command}\n")
            with formatter.indentation():
                formatter.write_text(what)


def _path(ctx: Any) -> str:  # noqa: ANN401 - click's context
    """Return the command's name behind `penstock`, such as `jobs list`."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name)
        ctx = ctx.parent
    return " ".join(names)


def _first_line(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


def _bold(title: str) -> str:
    return typer.style(title, bold=True)


@cache
def _config_option() -> Any:  # noqa: ANN401 - typer's parameter
    """Return `--config` as an option behind the command's name; help shows it once, at the root."""
    return get_command(_behind).params[0]


def _take_config(context: typer.Context, file: Path | None) -> None:
    if file is not None:
        # Imported here: it imports rooms, which help does without.
        from penstock.cli.options import Invocation  # noqa: PLC0415 - see above

        context.obj = Invocation(file)


_behind = typer.Typer(add_completion=False)
_BEHIND_OPTION = typer.Option("--config", hidden=True, expose_value=False, callback=_take_config)


@_behind.command()
def _config(_config: Annotated[Path | None, _BEHIND_OPTION] = None) -> None:
    """Holds the option; it is never run."""
