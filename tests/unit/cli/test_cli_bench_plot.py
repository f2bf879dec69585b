"""The picture of a run: refused before the run where it cannot be drawn, drawn without a point."""

import sys
from pathlib import Path

import pytest

from penstock.cli.bench.figures import report
from penstock.cli.bench.loop_lag import LoopLag
from penstock.cli.bench.plot import check_plot, write_plot
from penstock.cli.bench.sample import Sample, SeenAnswer
from penstock.cli.exit_codes import CommandFailed
from penstock.testing.manual_clock import ManualClock


def test_missing_library_is_told_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CommandFailed, match="pip install matplotlib"):
        check_plot(Path("run.png"))


def test_other_endings_are_refused() -> None:
    with pytest.raises(CommandFailed, match=r"must end in \.png"):
        check_plot(Path("run.jpg"))


@pytest.mark.parametrize("samples", [[], [Sample(0.5, "ok", 1.0, 0.2, 0.5), Sample(1, "cut", 2.0)]])
def test_run_is_drawn_whatever_it_has(samples: list[Sample], tmp_path: Path) -> None:
    seen = SeenAnswer(samples=samples, seconds=2.0)
    made = report(seen, LoopLag(ManualClock()), load="l", model="m")
    write_plot(tmp_path / "run.png", made, samples)
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
