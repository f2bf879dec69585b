"""The help page of each command: words instead of types, examples that the command takes."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.docs_reading import check_command
from tests.unit.cli.conftest import Penstock
from typer.testing import CliRunner

from penstock.cli.commands import app, whole_tree
from penstock.cli.examples import EXAMPLES

WIDTH = 80
# Python's types, as in `<bool>`, and bounds, as in `1<=x<=100`.
TYPES = re.compile(r"<\w[\w\[\] |.]*>|<=")


def paths(command: Any, path: str = "") -> Iterator[str]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        # Earlier names of commands are hidden.
        if not child.hidden:
            yield from paths(child, f"{path} {name}".strip())


ALL = list(paths(whole_tree()))


def help_of(path: str, option: str = "--help") -> str:
    done = CliRunner(env={"COLUMNS": str(WIDTH)}).invoke(app, [*path.split(), option])
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("path", ALL)
def test_help_names_values_by_words_and_fits(path: str) -> None:
    page = help_of(path)
    assert not TYPES.search(page)
    assert max(len(line) for line in page.splitlines()) <= WIDTH
    assert help_of(path, "-h") == page


@pytest.mark.parametrize("path", ALL)
def test_help_ends_with_two_examples_one_line_each(path: str) -> None:
    lines = help_of(path).partition("\nExamples:\n")[2].splitlines()
    shown = [line.strip() for line in lines if " penstock " in f" {line.strip()} "]
    assert len(shown) >= 2
    if path in EXAMPLES:
        assert [command for command, _ in EXAMPLES[path]] == shown


def test_every_example_is_of_a_command_that_is_there() -> None:
    assert set(EXAMPLES) <= set(ALL)


@pytest.mark.parametrize("path", sorted(EXAMPLES))
def test_examples_are_taken_by_the_command_line(path: str) -> None:
    for command, what in EXAMPLES[path]:
        words = shlex.split(command)
        arguments = words[words.index("penstock") + 1 :]
        without_config = [word for word in arguments if word not in {"--config"}]
        without_config = [word for word in without_config if not word.endswith(".toml")]
        assert " ".join(without_config).startswith(path)
        check_command(path, arguments)
        assert what.endswith(".")


def test_flags_take_no_value_and_bounds_are_words() -> None:
    page = help_of("jobs list")
    assert re.search(r"--json +Print JSON", page)
    assert re.search(r"--limit N +How many, at most\.  \[default: 20; 1 to 1000\]", page)
    assert "[default: on]" in help_of("bench")
    assert "Usage: " in help_of("bench")
    assert "bench [OPTIONS] [URL...]\n" in help_of("bench")


@pytest.mark.parametrize(
    "arguments",
    [("models", "list"), ("models",), ("usage",), ("doctor",), ("jobs", "list", "--limit", "3")],
)
def test_config_is_taken_behind_the_command(
    penstock: Penstock, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[nosuchroom]\n")
    done = penstock(*arguments, "--config", str(wrong))
    assert done.exit_code == 2
    assert f"{wrong}: no room `nosuchroom`" in " ".join(done.stderr.split())


def test_config_behind_the_command_wins(penstock: Penstock, tmp_path: Path) -> None:
    for port in (1111, 2222):
        (tmp_path / f"{port}.toml").write_text(f"[ingress]\nport = {port}\n")
    done = penstock("--config", "1111.toml", "config", "show", "--config", "2222.toml")
    assert re.search(r"^ingress.port +2222 ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("penstock jo", "jobs"),
        ("penstock jobs wa", "watch"),
        ("penstock jobs list --af", "--after"),
    ],
)
def test_shell_completes_commands_and_options(typed: str, completed: str) -> None:
    asked = (f"COMP_WORDS={typed}", f"COMP_CWORD={typed.count(' ')}")
    command = ["env", *asked, "_PENSTOCK_COMPLETE=complete_bash", sys.executable, "-m", "penstock"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [completed]
