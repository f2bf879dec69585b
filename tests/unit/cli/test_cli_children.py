"""The children of `penstock up`: what is said of their end, and how large their logs get."""

import asyncio
from pathlib import Path

import pytest

from penstock.cli.exit_codes import ExitCode
from penstock.cli.stop_signals import StopSignals
from penstock.cli.up import children
from penstock.cli.up.children import Child, ChildPlan
from penstock.clock import SystemClock


def test_end_is_told_in_words() -> None:
    assert children._how(-9) == "killed by SIGKILL"
    assert children._how(3) == "exit code 3"


def test_log_is_cut_and_one_older_part_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "_LOG_BYTES_MAX", 100)
    log = tmp_path / "gateway.log"
    with log.open("a") as writer:
        writer.write("x" * 90)
        writer.flush()
        children._bound(log)
        assert log.stat().st_size == 90
        writer.write("y" * 90)
        writer.flush()
        children._bound(log)
        writer.write("z")
        writer.flush()
    assert log.read_text() == "z"
    assert (tmp_path / "gateway.log.1").read_text() == "x" * 90 + "y" * 90


async def test_child_that_is_used_wrongly_is_given_up_at_once_with_its_last_words(
    tmp_path: Path,
) -> None:
    given_up: list[tuple[str, int]] = []
    said: list[str] = []
    plan = ChildPlan("gateway", ("no-such-command",), {}, tmp_path / "gateway.log")
    child = Child(
        plan,
        SystemClock(),
        say=said.append,
        on_start=lambda: None,
        give_up=lambda message, code: given_up.append((message, code)),
    )
    await child.keep()
    [(message, code)] = given_up
    assert code == ExitCode.USAGE
    assert message.startswith("gateway ended (exit code 2): ")
    assert said == []
    assert child.pid == 0


async def test_each_request_to_end_is_more_urgent_than_the_one_before() -> None:
    signals = StopSignals()
    steps = (signals.asked, signals.hurried, signals.abandoned)
    seen = []
    for _ in range(4):
        seen.append([step.is_set() for step in steps])
        signals.ask()
        await asyncio.sleep(0)
    assert seen == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
