"""Draws docs/plots/headroom.png: how flex work fills an engine and gives way, in a scripted run.

The very controller that keepers use, against a small model of an engine with 64 slots: an idle
engine, a steady live load, a burst, a KV cache that fills up, and quiet again.
"""

import heapq
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from penstock.puller.headroom import Headroom, HeadroomObservation
from penstock.puller.settings import PullerSettings

SLOTS = 64
LOOK = 0.05
SECONDS = 40.0
JOB_SECONDS = 3.0
UNREAD_SECONDS = 0.05
# From when on so many live requests are there, and for how long each of their prompts is read.
LIVE = [(0, 0), (8, 12), (16, 44), (20, 12), (32, 0)]
KV_FULL = (25.0, 27.0)
READING_EVERY = 1.0
READING_SECONDS = 0.25


def live_at(now: float) -> int:
    return [count for since, count in LIVE if since <= now][-1]


def run() -> dict[str, list[float]]:
    """One scripted run; what is drawn, look by look."""
    headroom = Headroom(PullerSettings())
    ends: list[float] = []
    begun: list[float] = []
    drawn: dict[str, list[float]] = {"time": [], "live": [], "flex": [], "allowed": []}
    for look in range(int(SECONDS / LOOK)):
        now = look * LOOK
        live = live_at(now)
        while ends and ends[0] <= now:
            heapq.heappop(ends)
        begun = [at for at in begun if at > now]
        is_reading = live > 0 and now % READING_EVERY < READING_SECONDS
        seen = HeadroomObservation(
            slots=SLOTS,
            live=live,
            live_unread_tokens=1500 if is_reading else 0,
            flex=len(ends),
            flex_unbegun=min(len(begun), len(ends)),
            flex_unread_tokens=100 * len(begun),
            mean_tokens=100,
            kv_use=0.95 if KV_FULL[0] <= now < KV_FULL[1] else 0.5,
        )
        room = headroom.look(seen, now)
        for _ in range(room.give_back):
            # The newest go first: they end last.
            ends.remove(max(ends))
            heapq.heapify(ends)
        for each in range(room.start):
            # Jobs are not all of one length, or they would all end at once.
            length = JOB_SECONDS * (0.5 + (look * 7 + each * 13) % 16 / 16)
            heapq.heappush(ends, now + length)
            begun.append(now + UNREAD_SECONDS)
        for name, value in (
            ("time", now), ("live", live), ("flex", len(ends)), ("allowed", headroom.allowed),
        ):  # fmt: skip
            drawn[name].append(value)
    return drawn


def draw(drawn: dict[str, list[float]], path: Path) -> None:
    mpl.use("Agg")
    figure, panel = plt.subplots(figsize=(10, 4.6))
    time = drawn["time"]
    top = [live + flex for live, flex in zip(drawn["live"], drawn["flex"], strict=True)]
    panel.fill_between(time, drawn["live"], color="tab:blue", alpha=0.75, label="wanted now")
    panel.fill_between(time, drawn["live"], top, color="tab:green", alpha=0.6, label="jobs")
    panel.plot(time, drawn["allowed"], color="black", lw=1.2, label="jobs allowed by feedback")
    panel.axhline(SLOTS, color="tab:red", lw=1, ls="--", label="slots of the replica")
    panel.axvspan(*KV_FULL, color="tab:orange", alpha=0.25, label="KV cache nearly full")
    panel.set_xlabel("seconds")
    panel.set_ylabel("requests and jobs in flight")
    panel.set_xlim(0, SECONDS)
    panel.set_ylim(0, max(top) * 1.05)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=5, frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    path = Path(__file__).parent.parent / "docs" / "plots" / "headroom.png"
    draw(run(), path)
    print(path)


if __name__ == "__main__":
    main()
