"""What `penstock --version` and `--help` cost: nothing but what it needs is imported."""

import resource
import subprocess
import sys

import pytest
from typer.main import get_group

from penstock.cli.commands import app, whole_tree
from penstock.cli.lazy_group import LazyCommand

PENSTOCK = (sys.executable, "-m", "penstock")
# Bare Python with typer takes 0.13 s on the machine where this was written.
CPU_SECONDS_MAX = 0.3
# One of several runs: a busy machine makes single ones slower, also in CPU time.
RUNS = 5
LINE_MAX = 66
TOLD = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from penstock.cli.main import main
main()
"""


def cpu_seconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*PENSTOCK, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imported(*arguments: str) -> set[str]:
    """The names of all modules that a run imports."""
    command = [sys.executable, "-c", TOLD, *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return set(told.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [("--version",), ("--help",)])
def test_start_takes_little_cpu(arguments: tuple[str, ...]) -> None:
    assert any(cpu_seconds(*arguments) <= CPU_SECONDS_MAX for _ in range(RUNS))


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("nonsense",)])
def test_start_imports_no_room(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    assert "penstock.cli.commands" in modules
    ours = {name for name in modules if name.startswith("penstock.")}
    assert all(name.startswith("penstock.cli") for name in ours), ours
    assert not modules & {"psycopg", "msgspec", "penstock.cli.options"}


def test_a_command_imports_only_its_own_modules() -> None:
    modules = imported("logs", "--help")
    assert "penstock.cli.up.logs" in modules
    assert not modules & {"penstock.cli.jobs", "penstock.cli.bench.command", "matplotlib"}


def test_every_command_of_the_list_loads() -> None:
    for name, command in whole_tree().commands.items():
        assert not isinstance(command, LazyCommand)
        assert command.name == name


def test_lines_of_the_list_are_not_wrapped() -> None:
    for command in get_group(app).commands.values():
        assert command.help
        assert len(command.help) <= LINE_MAX
