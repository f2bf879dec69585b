"""The terminal that follows the docs: what stays from block to block, and what ends it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.docs_blocks import BlockError, read_page
from tests.acceptance.docs_page import PageRun
from tests.acceptance.docs_shell import Shell

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
SECONDS = 8.0


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "scripts").mkdir()
    started = Shell(tmp_path, tmp_path / "scripts", ENVIRONMENT)
    yield started
    started.close()


def follow(shell: Shell, tmp_path: Path, *lines: str) -> None:
    path = tmp_path / "page.md"
    path.write_text("\n".join(lines) + "\n")
    PageRun(read_page(path, tmp_path), shell, {}, seconds=SECONDS).follow()


def test_variables_and_the_folder_stay(shell: Shell) -> None:
    assert shell.run("mkdir inner; cd inner; A=1", SECONDS).status == 0
    assert shell.run('echo "$A ${PWD##*/}"', SECONDS).out == "1 inner\n"


def test_first_failing_line_fails_the_block(shell: Shell) -> None:
    done = shell.run("echo before; false; echo after", SECONDS)
    assert (done.status, done.out) == (1, "before\n")


def test_unset_variable_and_failing_pipe_fail_the_block(shell: Shell) -> None:
    assert shell.run('echo "$NOT_SET"', SECONDS, may_fail=True).status != 0
    assert shell.run("false | cat", SECONDS, may_fail=True).status != 0
    assert shell.run("echo on", SECONDS).out == "on\n"


def test_block_that_does_not_end_is_given_up(shell: Shell) -> None:
    with pytest.raises(AssertionError, match="still running"):
        shell.run("sleep 60", 0.2)


def test_what_runs_on_is_awaited_and_gets_ctrl_c_at_the_end(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path, ENVIRONMENT)
    waits = "trap 'echo stopped >ended; exit 0' INT; echo Ready.; sleep 60 & wait"
    shell.stay(waits, "Ready.", SECONDS)
    shell.close()
    assert (tmp_path / "ended").read_text() == "stopped\n"


def test_what_runs_on_and_ends_badly_is_told(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path, ENVIRONMENT)
    shell.stay("trap 'exit 3' INT; echo Ready.; sleep 60 & wait", "Ready.", SECONDS)
    with pytest.raises(AssertionError, match="exit status 3"):
        shell.close()


def test_marks_do_what_they_say(shell: Shell, tmp_path: Path) -> None:
    lines = ["<!-- block: save: kept/a.json -->", "```json", '{"a": 1}', "```"]
    lines += ["<!-- block: exit: 2 -->", "```bash", "exit 2", "```"]
    lines += ["<!-- block: given: ID=$(echo 7) -->", "```bash", "echo '{\"id\": ID}'", "```"]
    lines += ["<!-- block: answer -->", "```json", '{"id": 0}', "```"]
    lines += ["<!-- block: after: grep 1 kept/a.json -->", "```console", "$ ls", "kept", "```"]
    follow(shell, tmp_path, *lines)
    assert (tmp_path / "kept" / "a.json").read_text() == '{"a": 1}\n'


@pytest.mark.parametrize(
    "mark", ["exit: 2", "after: test -e nowhere", "given: ID=", "given: ID=$(false)"]
)
def test_mark_that_does_not_hold_fails_the_page(shell: Shell, tmp_path: Path, mark: str) -> None:
    with pytest.raises(BlockError):
        follow(shell, tmp_path, f"<!-- block: {mark} -->", "```bash", "echo on", "```")
