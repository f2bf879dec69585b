"""Medians, quartiles and ratios of a run's rounds, and the table they are shown in."""

import statistics

import msgspec

from scenarios import BODY_1MB, CHUNK, SINGLE, SMALL, Cost, Scenario

# Cost by scenario's name, then by candidate's key, one per round.
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


def cpu_ratio(rounds: Rounds, scenario: Scenario, ours: str, theirs: str) -> Spread | None:
    """The spread of the per-round ratios, which a busy machine disturbs less than the figures."""
    costs = rounds[scenario.name]
    if ours not in costs or theirs not in costs:
        return None
    pairs = zip(costs[ours], costs[theirs], strict=True)
    return spread([our.cpu / their.cpu for our, their in pairs])


def added_p50(rounds: Rounds, scenario: Scenario, candidate: str, bare: str) -> Spread:
    """Microseconds of median latency more than without the candidate, round by round."""
    costs = rounds[scenario.name]
    pairs = zip(costs[candidate], costs[bare], strict=True)
    return spread([one.latency_p50_us - none.latency_p50_us for one, none in pairs])


def table(
    rounds: Rounds, names: dict[str, str], memory_megabytes: dict[str, float], bare: str
) -> str:
    """One row per candidate: median (quartiles) over the rounds."""
    header = (
        "candidate",
        "CPU µs/request, c=64",
        "CPU µs/chunk",
        "at chunks/s",
        "CPU ms, 1 MB",
        "added p50 ms, 1 MB",
        "added p50 µs, c=1",
        "memory MB/worker",
    )
    rows: list[tuple[str, ...]] = [header]
    for key, name in names.items():
        if key == bare:
            rows.append((name, "-", "-", _rate(rounds, bare), "-", *_latencies(rounds, bare), "-"))
            continue
        rows.append(
            (
                name,
                _cpu(rounds, SMALL, key),
                _cpu(rounds, CHUNK, key),
                _rate(rounds, key),
                _cpu(rounds, BODY_1MB, key, digits=2),
                _milliseconds(added_p50(rounds, BODY_1MB, key, bare)),
                added_p50(rounds, SINGLE, key, bare).shown(0),
                f"{memory_megabytes[key]:.0f}",
            )
        )
    return _aligned(rows)


def _cpu(rounds: Rounds, scenario: Scenario, key: str, digits: int = 1) -> str:
    return spread([cost.cpu for cost in rounds[scenario.name][key]]).shown(digits)


def _rate(rounds: Rounds, key: str) -> str:
    return f"{spread([cost.rate for cost in rounds[CHUNK.name][key]]).median:.0f}"


def _latencies(rounds: Rounds, bare: str) -> tuple[str, str]:
    """The bare upstream's own medians, to which the others' are added."""
    large = spread([cost.latency_p50_us for cost in rounds[BODY_1MB.name][bare]])
    single = spread([cost.latency_p50_us for cost in rounds[SINGLE.name][bare]])
    return f"itself {large.median / 1000:.2f}", f"itself {single.median:.0f}"


def _milliseconds(microseconds: Spread) -> str:
    low, median, high = microseconds.low, microseconds.median, microseconds.high
    return Spread(low=low / 1000, median=median / 1000, high=high / 1000).shown(2)


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
