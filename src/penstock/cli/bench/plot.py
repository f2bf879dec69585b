"""Draws first tokens over time, and their spread. Only this file imports matplotlib."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from penstock.cli.bench.answer import OK
from penstock.cli.bench.figures import Report
from penstock.cli.bench.sample import Sample
from penstock.cli.exit_codes import CommandFailed, ExitCode


def check_plot(path: Path | None) -> None:
    """Refuse, before the run and not after it, a picture that cannot be drawn."""
    if path is None:
        return
    if path.suffix != ".png":
        raise CommandFailed(
            f"The picture's file must end in .png, not {path.name}.", ExitCode.USAGE
        )
    try:
        import_module("matplotlib")
    except ImportError:
        raise CommandFailed(
            "--plot needs matplotlib: pip install matplotlib. The bars in the terminal need"
            " nothing.",
            ExitCode.USAGE,
        ) from None


def write_plot(path: Path, report: Report, samples: Sequence[Sample]) -> None:
    """Write a PNG. A run without a single token has axes and no points."""
    figure_of = import_module("matplotlib.figure").Figure
    ok = [s for s in samples if s.code == OK and s.first_token_seconds is not None]
    times = [1000 * (s.first_token_seconds or 0.0) for s in ok]
    figure = figure_of(figsize=(10, 4.2), layout="constrained")
    over_time, spread = figure.subplots(1, 2)
    over_time.scatter([s.at for s in ok], times, s=10, alpha=0.6, color="#0b7285")
    over_time.set(xlabel="sent, seconds after the start", ylabel="first token, ms")
    over_time.set_ylim(bottom=0)
    ordered = sorted(times)
    shares = [100 * (rank + 1) / len(ordered) for rank in range(len(ordered))]
    spread.step(ordered, shares, where="post", color="#0b7285")
    marks = (
        ("p50", report.first_token_ms.p50, "left"),
        ("p95", report.first_token_ms.p95, "right"),
    )
    for name, value, side in marks:
        if value is not None:
            spread.axvline(value, linestyle=":", color="#868e96")
            spread.annotate(f" {name} {value:.0f} ms ", (value, 5), ha=side, color="#495057")
    spread.set(xlabel="first token, ms", ylabel="% of answers", ylim=(0, 100))
    for axes in (over_time, spread):
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{report.load}, {report.model}")
    figure.savefig(path, dpi=120)
