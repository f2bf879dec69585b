"""The reference page of the command line, made of typer's own tree of commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.cli.commands import whole_tree
from penstock.cli.examples import EXAMPLES

_HEAD = """# Commands

Every command with its options, as `--help` has them. [The command line](../cli.md) says what they
do, with exit codes and examples. Results go to standard output, progress and errors to standard
error.
"""


def command_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for path, command in commands():
        parts += [
            f"## `{path}`\n",
            f"{_about(command)} [In words]({_guide(path)}).\n",
            _usage(path, command),
        ]
        shown = [one for one in command.params if one.name != "help" and not one.hidden]
        if rows := [_row(one) for one in shown]:
            parts += ["| option | default | what it is |", "|---|---|---|", *rows, ""]
        parts += _examples(path)
    return "\n".join(parts)


def commands(command: Any = None, path: str = "penstock") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - click's tree, which typer vendors
    """Every command that does something, by its path, without groups that only hold others.

    Earlier names of commands, which are hidden, are left out too.
    """
    command = command or whole_tree()
    children = getattr(command, "commands", {})
    if path == "penstock" or not children or command.invoke_without_command:
        yield path, command
    for name, child in children.items():
        if not child.hidden:
            yield from commands(child, f"{path} {name}")


def _guide(path: str) -> str:
    return f"../cli.md#{path.replace(' ', '-')}"


def _about(command: Any) -> str:  # noqa: ANN401 - see above
    return " ".join((command.help or "").split())


def _usage(path: str, command: Any) -> str:  # noqa: ANN401 - see above
    words = [path, *(_name(one) for one in command.params if one.param_type_name == "argument")]
    words += ["[OPTIONS]"] if any(one.param_type_name == "option" for one in command.params) else []
    words += ["COMMAND"] if path == "penstock" else []
    return f"```text\n{' '.join(words)}\n```\n"


def _examples(path: str) -> list[str]:
    """A line above each example says what it is for."""
    lines = []
    for command, what in EXAMPLES[path.removeprefix("penstock").strip()]:
        lines += [f"# {what}", command]
    return ["```text", *lines, "```", ""]


def _row(parameter: Any) -> str:  # noqa: ANN401 - see above
    said = " ".join((parameter.help or "").split())
    if parameter.required:
        return f"| `{_name(parameter)}` | required | {said} |"
    default = parameter.default
    is_plain = isinstance(default, str | int | float | Path) and not isinstance(default, bool)
    shown = f"`{getattr(default, 'value', default)}`" if is_plain and default != "" else ""
    return f"| `{_name(parameter)}` | {shown} | {said} |"


def _name(parameter: Any) -> str:  # noqa: ANN401 - see above
    if parameter.param_type_name == "option":
        return " / ".join([*parameter.opts, *parameter.secondary_opts])
    return str(parameter.metavar or parameter.name.upper())
