"""Medians, quartiles and ratios of a run's rounds, and the table they are shown in."""

import os
import platform
import statistics
import time
from pathlib import Path

import msgspec

from scenarios import (
    AGENT,
    BODY_1MB,
    BODY_1MB_NEW,
    BODY_300KB,
    BODY_300KB_NEW,
    CHUNK,
    FIRST_TOKEN,
    SINGLE,
    SMALL,
    Cost,
    Scenario,
)

# Cost by scenario's name, then by candidate's key, one per round. What was not run is not in it.
Rounds = dict[str, dict[str, list[Cost]]]


class Spread(msgspec.Struct, frozen=True):
    """A median with its quartiles."""

    low: float
    median: float
    high: float

    def shown(self, digits: int) -> str:
        low, high = f"{self.low:.{digits}f}", f"{self.high:.{digits}f}"
        return f"{self.median:.{digits}f} ({low} to {high})"


def spread(values: list[float]) -> Spread:
    if len(values) == 1:
        return Spread(low=values[0], median=values[0], high=values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low=low, median=median, high=high)


def machine() -> str:
    """The date and what was measured on."""
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{time.strftime('%Y-%m-%d')}, {_processor()}, {os.cpu_count()} cores, {system}"


def cpu_ratio(rounds: Rounds, scenario: Scenario, ours: str, theirs: str) -> Spread | None:
    """The spread of the per-round ratios, which a busy machine disturbs less than the figures."""
    costs = rounds.get(scenario.name, {})
    if ours not in costs or theirs not in costs:
        return None
    pairs = zip(costs[ours], costs[theirs], strict=True)
    return spread([our.cpu / their.cpu for our, their in pairs])


def added_p50(rounds: Rounds, scenario: Scenario, candidate: str, bare: str) -> list[float]:
    """Microseconds of median latency more than without the candidate, round by round.

    Of a stream it is the time to its first token.
    """
    costs = rounds[scenario.name]
    pairs = zip(costs[candidate], costs[bare], strict=True)
    if scenario.is_timed_to_first_token:
        return [one.first_token_p50_us - none.first_token_p50_us for one, none in pairs]
    return [one.latency_p50_us - none.latency_p50_us for one, none in pairs]


def added_ratio(
    rounds: Rounds, scenario: Scenario, ours: str, theirs: str, bare: str
) -> Spread | None:
    """The spread of the per-round ratios of added time; rounds lost in the noise are left out."""
    costs = rounds.get(scenario.name, {})
    if ours not in costs or theirs not in costs:
        return None
    pairs = zip(
        added_p50(rounds, scenario, ours, bare),
        added_p50(rounds, scenario, theirs, bare),
        strict=True,
    )
    ratios = [our / their for our, their in pairs if their > 0]
    return spread(ratios) if ratios else None


def table(rounds: Rounds, names: dict[str, str], memory: dict[str, float], bare: str) -> str:
    """One row per candidate: median (quartiles) over the rounds; "-" where it was not run."""
    columns = (SMALL, CHUNK, BODY_300KB, BODY_1MB, BODY_300KB_NEW, BODY_1MB_NEW, AGENT)
    cpu = [scenario for scenario in columns if scenario.name in rounds]
    timed = [scenario for scenario in (FIRST_TOKEN, SINGLE) if scenario.name in rounds]
    header = ("candidate", *(scenario.title for scenario in cpu))
    header += (*map(_added_title, timed), "memory MB/worker")
    rows: list[tuple[str, ...]] = [header]
    for key, name in names.items():
        if key == bare:
            continue
        cells = [_cpu(rounds, scenario, key) for scenario in cpu]
        cells += [_added(rounds, scenario, key, bare) for scenario in timed]
        rows.append((name, *cells, f"{memory[key]:.0f}"))
    if CHUNK.name not in rounds:
        return _aligned(rows)
    chunks = spread([cost.rate for cost in rounds[CHUNK.name][bare]]).median
    return f"{_aligned(rows)}\n\nThe bare upstream sends {chunks:,.0f} chunks/s."


def _cpu(rounds: Rounds, scenario: Scenario, key: str) -> str:
    costs = rounds[scenario.name].get(key)
    digits = 2 if scenario.scale < 1e6 else 1
    return spread([cost.cpu for cost in costs]).shown(digits) if costs else "-"


def _added_title(scenario: Scenario) -> str:
    return "added first token µs" if scenario.is_timed_to_first_token else "added p50 µs, c=1"


def _added(rounds: Rounds, scenario: Scenario, key: str, bare: str) -> str:
    if not rounds[scenario.name].get(key):
        return "-"
    return spread(added_p50(rounds, scenario, key, bare)).shown(0)


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
