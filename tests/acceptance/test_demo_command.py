"""`penstock demo` as a user runs it: bars, one table, and nothing left behind."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli_run import PENSTOCK, pids_with
from tests.acceptance.terminal_picture import Terminal

pytestmark = pytest.mark.timeout(240)
START_SECONDS = 90.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the demo puts what it makes: whatever it leaves, in files or processes, names it.

    Unix sockets are made in it, which want a short path.
    """
    with tempfile.TemporaryDirectory(prefix="demo-test-", dir="/tmp") as made:
        yield Path(made)


def terminal_of(tmp_path: Path, folder: Path, *options: str) -> Terminal:
    command = [*PENSTOCK, "demo", "--quick", *options]
    variables = {"TMPDIR": str(folder)}
    return Terminal(tmp_path / "terminal", command, columns=100, rows=30, variables=variables)


def test_demo_shows_bars_and_one_table_and_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    figures = tmp_path / "figures.json"
    with terminal_of(tmp_path, folder, "--json", str(figures)) as terminal:
        terminal.wait_for("imitated engines", 30)
        terminal.wait_for("Replica 2", START_SECONDS)
        terminal.check_layout()
        terminal.wait_for("Flex jobs", 60)
        terminal.check_layout()
        terminal.picture(tmp_path / "running.png")
        assert terminal.wait_for_end(60) == 0
        terminal.check_layout()
        text = "\n".join(terminal.lines)
        terminal.picture(tmp_path / "ended.png")
    assert "Round robin, no affinity" in text
    assert "Penstock's router finds a cached prompt" in text
    check_figures(json.loads(figures.read_bytes()))
    assert list(folder.iterdir()) == []
    assert pids_with(folder) == []


def check_figures(rows: list[dict[str, Any]]) -> None:
    """Counts and sums only: how fast it was is the machine's affair."""
    assert [row["act"] for row in rows] == ["round_robin", "affinity", "flex_behind"]
    for row in rows:
        report = row["report"]
        assert report["errors"] == {}
        assert report["ok"] + report["stopped"] == report["requests"]
        assert report["ok"] > 0
        assert report["cost_nanousd"] > 0
        assert row["tokens_per_engine_second"] > 0
        assert all(tokens > 0 for tokens in row["replica_tokens"])
    by_round_robin, by_affinity = (row["report"]["hit_ratio"] for row in rows[:2])
    assert by_affinity > by_round_robin
    assert rows[2]["jobs"]["total"] == 20
    assert rows[1]["jobs"] is None


def test_ctrl_c_leaves_nothing_either(tmp_path: Path, folder: Path) -> None:
    with terminal_of(tmp_path, folder) as terminal:
        terminal.wait_for("Replica 2", START_SECONDS)
        terminal.press("C-c")
        assert terminal.wait_for_end(60) == 1
        terminal.check_layout()
        text = "\n".join(terminal.lines)
    assert "Stopped after" in text
    assert list(folder.iterdir()) == []
    assert pids_with(folder) == []
