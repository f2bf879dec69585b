"""docs/cli.md against typer's own tree: every command and option, in the words of its help."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.commands import whole_tree

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
SECTIONS = dict(re.findall(r"\n##+ `(penstock[^`]*)`\n(.*?)(?=\n##|\Z)", PAGE, re.DOTALL))


def commands(command: Any, path: str = "penstock") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        # Earlier names of commands are hidden.
        if not child.hidden:
            yield from commands(child, f"{path} {name}")


# A group that only holds others needs no section of its own.
_DO_SOMETHING = {
    "penstock",
    "penstock decisions",
    "penstock models",
    "penstock usage",
    "penstock sandbox",
}
ALL = [
    (path, command)
    for path, command in commands(whole_tree())
    if path in _DO_SOMETHING or not hasattr(command, "commands")
]


def rows(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.name == "help" or parameter.hidden:
            continue
        is_option = parameter.param_type_name == "option"
        name = parameter.opts[0] if is_option else (parameter.metavar or parameter.name.upper())
        yield f"| `{name}` | {parameter.help} |"


@pytest.mark.parametrize(("path", "command"), ALL, ids=[path for path, _ in ALL])
def test_command_has_a_section_with_every_option_in_its_own_words(path: str, command: Any) -> None:
    section = SECTIONS[path]
    for row in rows(command):
        assert row in section


@pytest.mark.parametrize(("path", "command"), ALL, ids=[path for path, _ in ALL])
def test_section_has_no_option_that_is_gone(path: str, command: Any) -> None:
    assert set(re.findall(r"\| `[^`]*` \| .* \|", SECTIONS[path])) == set(rows(command))


def test_every_section_is_a_command() -> None:
    assert set(SECTIONS) == {path for path, _ in ALL}


@pytest.mark.parametrize(("path", "command"), ALL, ids=[path for path, _ in ALL])
def test_every_command_that_prints_data_takes_json(path: str, command: Any) -> None:
    silent = {
        "penstock",
        "penstock models",
        "penstock gateway",
        "penstock control",
        "penstock sandbox",
        "penstock chat",
        "penstock contracts example",
        "penstock contracts alerts",
        "penstock logs",
        "penstock replicas logs",
        "penstock stop",
    }
    has_json = any("--json" in parameter.opts for parameter in command.params)
    assert has_json is (path not in silent)
