"""A plot of the tokens that an engine serves in a second over live load, with and without flex."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from flex_fleet_runs import LOADS, SHAPES, Pair

_TITLES = {
    "prompts": "new prompts wanted now; small jobs",
    "agents": "agents wanted now; jobs of 500 to 2,000 tokens",
}


def plot_tokens(results: Mapping[tuple[str, int], Pair], folder: Path) -> Path:
    """A panel for each shape of traffic."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    figure, panels = plt.subplots(1, len(SHAPES), figsize=(6.2 * len(SHAPES), 5.0), squeeze=False)
    for panel, shape in zip(panels[0], SHAPES, strict=True):
        _draw(panel, {load: results[shape, load] for load in LOADS})
        panel.set_title(_TITLES[shape])
    panels[0][0].set_ylabel("thousand tokens per engine-second")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.suptitle("Simulated fleet: what flex work fills")
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    path = folder / "flex-throughput.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _draw(panel: Axes, rows: Mapping[int, Pair]) -> None:
    served = [rows[load].tokens / 1000 for load in LOADS]
    without = [rows[load].tokens_without / 1000 for load in LOADS]
    ceiling = [rows[load].tokens / 1000 / rows[load].throughput for load in LOADS]
    panel.plot(LOADS, ceiling, "--", color="tab:gray", lw=1.5, label="bare engines, flooded")
    panel.plot(LOADS, served, "s-", color="black", lw=2.6, ms=6, label="with flex")
    panel.plot(LOADS, without, "o-", color="tab:blue", lw=1.8, ms=5, label="without flex")
    panel.fill_between(LOADS, without, served, color="tab:green", alpha=0.15)
    panel.set_ylim(bottom=0)
    panel.set_xlim(15, 100)
    ticks = [f"{load} %\nx {rows[load].ttft_p95_ratio:.2f}" for load in LOADS]
    panel.set_xticks(LOADS, ticks)
    panel.set_xlabel("live load, and its first-token p95 as a multiple of that without flex")
    panel.grid(alpha=0.3)
