"""Plots of first-token p95 over load, for every rule, with one gateway and with four."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from fleet_simulator.cell import PENSTOCK
from fleet_simulator.peer_rules.rules import (
    LEAST_EXPECTED_WAIT,
    PEERS,
    SESSION_HASH,
)
from routing_jobs import LOADS, Job
from routing_requirements import GATEWAYS, Results

_TITLES = {
    "A": "conversation, 8 replicas",
    "C": "conversation, 16 replicas",
    "D": "synthetic, 8 replicas",
    "agents": "generated agents, 8 replicas",
}
_TICKS = (2, 3, 5, 10, 20, 50, 100)


def plot_p95(results: Results, setups: Sequence[str], folder: Path) -> list[Path]:
    """One picture for one gateway, one for four; a panel for each set-up."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for gateways in (1, GATEWAYS):
        figure, panels = plt.subplots(
            1, len(setups), figsize=(5 * len(setups), 5.2), sharey=True, squeeze=False
        )
        for panel, setup in zip(panels[0], setups, strict=True):
            _draw(panel, results, setup, gateways)
        panels[0][0].set_ylabel("time to first token, p95, seconds")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=5, frameon=False)
        which = "one gateway" if gateways == 1 else f"{gateways} gateways"
        figure.suptitle(f"Simulated fleet, {which}")
        figure.tight_layout(rect=(0, 0.14, 1, 1))
        path = folder / f"routing-p95-{gateways}-gateways.png"
        figure.savefig(path, dpi=110)
        plt.close(figure)
        paths.append(path)
    return paths


def _draw(panel: Axes, results: Results, setup: str, gateways: int) -> None:
    colours = plt.get_cmap("tab10")
    for place, rule in enumerate((*PEERS, LEAST_EXPECTED_WAIT, SESSION_HASH)):
        values = [results[Job(setup, load, rule, gateways)].ttft_p95 for load in LOADS]
        panel.plot(LOADS, values, label=rule, color=colours(place), marker="o", ms=4, lw=1.3)
    if gateways == 1:
        lines = [("Penstock", Job(setup, 0, PENSTOCK), "-")]
    else:
        hears = Job(setup, 0, PENSTOCK, gateways, is_shared=True)
        silent = Job(setup, 0, PENSTOCK, gateways)
        lines = [("Penstock, hearing each other", hears, "-"), ("Penstock, silent", silent, "--")]
    for label, job, style in lines:
        jobs = [Job(job.setup, load, job.rule, job.gateways, job.is_shared) for load in LOADS]
        values = [results[each].ttft_p95 for each in jobs]
        panel.plot(LOADS, values, style, label=label, color="black", marker="s", ms=6, lw=2.6)
    panel.set_yscale("log")
    panel.set_ylim(1.8, 120)
    panel.set_yticks(_TICKS, [str(tick) for tick in _TICKS])
    panel.minorticks_off()
    panel.set_xticks(LOADS, [f"{load} %" for load in LOADS])
    panel.set_xlabel("load")
    panel.set_title(f"{setup}: {_TITLES[setup]}")
    panel.grid(alpha=0.3)
