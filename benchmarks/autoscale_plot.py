"""A plot of a simulated day: the load, and how many engines each rule paid for."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from fleet_simulator.daily_load import DailyLoad
from fleet_simulator.scaled_cell import ScaledOutcome

_STYLES = {
    "static": ("tab:gray", 1.4, "--", "fixed size"),
    "oracle": ("tab:green", 1.4, "-", "an oracle that knows the sine"),
    "keda": ("tab:orange", 1.4, "-", "KEDA, requests in flight"),
    "penstock": ("black", 2.2, "-", "Penstock"),
}


def plot_day(outcomes: Mapping[str, ScaledOutcome], day: DailyLoad, folder: Path) -> Path:
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    figure, panel = plt.subplots(figsize=(9.0, 4.8))
    fixed = outcomes["static"]
    peak = fixed.sizes[0][1]
    times = [day.seconds * step / 300 for step in range(301)]
    load = [peak * day.share(at) for at in times]
    hours = [at / 3600 for at in times]
    panel.fill_between(hours, load, color="tab:blue", alpha=0.12, label="load, at the fixed size")
    for name, (colour, width, line, label) in _STYLES.items():
        outcome = outcomes[name]
        share = outcome.engine_hours / fixed.engine_hours
        ratio = outcome.ttft_p95 / fixed.ttft_p95
        at = [when / 3600 for when, _ in outcome.sizes] + [day.seconds / 3600]
        sizes = [size for _, size in outcome.sizes]
        said = f"{label}: {share:.0%} of the engine-hours, p95 x {ratio:.2f}"
        panel.step(at, [*sizes, sizes[-1]], line, where="post", color=colour, lw=width, label=said)
    panel.set_ylim(bottom=0)
    panel.set_xlim(0, day.seconds / 3600)
    panel.set_xlabel("hours of a simulated day")
    panel.set_ylabel("engines paid for")
    panel.set_title("Engines that follow the load: starts take 180 s")
    panel.legend(loc="lower center", frameon=False, fontsize=9)
    panel.grid(alpha=0.3)
    figure.tight_layout()
    path = folder / "autoscale.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
