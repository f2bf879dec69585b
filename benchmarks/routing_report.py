"""The routing benchmark's tables, and its line of JSON."""

from collections.abc import Mapping, Sequence

import msgspec

from fleet_simulator.cell import PENSTOCK, Change
from fleet_simulator.scale_event import ScaleOutcome
from routing_jobs import LOADS, NO_MARGIN, STRICT, Job, find_setup
from routing_requirements import ENDLESS_SHARES, WANTED, Results, Wanted, endless_share, ours

_MOVED_MAX = 0.05
_AFTER_MAX = 1.15


def rules_table(results: Results, setups: Sequence[str]) -> str:
    """Every rule that was run: p50 / p95 of the first token, p95 of a token, hits, moves."""
    lines = ["| set-up, load | rule | gateways | TTFT p50 / p95 s | TPOT p95 ms | hit | moved |"]
    lines.append("|---|---|---|--:|--:|--:|--:|")
    for job in sorted(results, key=lambda job: (setups.index(job.setup), job.load)):
        figures = results[job]
        lines.append(
            f"| {job.setup} {job.load} % | {name_of(job)} | {gateways_of(job)} "
            f"| {figures.ttft_p50:.2f} / {figures.ttft_p95:.2f} | {figures.tpot_p95 * 1000:.0f} "
            f"| {figures.hit:.3f} | {figures.moved:.2f} |"
        )
    return "\n".join(lines)


def name_of(job: Job) -> str:
    return f"{job.rule}, {job.variant}" if job.variant else job.rule


def gateways_of(job: Job) -> str:
    if job.gateways == 1:
        return "1"
    if job.rule != PENSTOCK:
        return f"{job.gateways}"
    return f"{job.gateways} heard" if job.is_shared else f"{job.gateways} silent"


def wanted_table(results: Results, setups: Sequence[str], loads: Sequence[int] = LOADS) -> str:
    """Each ratio with its limit and its figure in each set-up, as far as it was run."""
    lines = ["| wanted | " + " | ".join(f"{load} %" for load in loads) + " |"]
    lines.append("|---|" + "--:|" * len(loads))
    for wanted in WANTED:
        cells = [_wanted_cell(wanted, results, setups, load) for load in loads]
        if any(cells):
            lines.append(f"| {wanted.name} | " + " | ".join(cells) + " |")
    shares = [
        f"{endless_share(results, setup):.2f} (wanted {ENDLESS_SHARES[setup]})"
        for setup in setups
        if setup in ENDLESS_SHARES and ours(setup, 75) in results
    ]
    if shares:
        lines.append(
            f"\nHits as a share of an endless cache's, 75 %, 1 gateway: {', '.join(shares)}"
        )
    return "\n".join(lines)


def staying_table(results: Results, setups: Sequence[str]) -> str:
    """What it costs a session to stay: p95 with the near-tie margin, strictly, and without."""
    lines = ["| set-up | load | near-ties stay | strict | no margin |", "|---|--:|--:|--:|--:|"]
    for setup in setups:
        for load in LOADS:
            cells = []
            for variant in ("", STRICT, NO_MARGIN):
                figures = results[Job(setup, load, PENSTOCK, variant=variant)]
                cells.append(
                    f"{figures.ttft_p95:.2f} s, hit {figures.hit:.3f}, moved {figures.moved:.2f}"
                )
            lines.append(f"| {setup} | {load} % | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def scale_table(outcomes: Mapping[Job, Sequence[ScaleOutcome]]) -> str:
    lines = [
        "| set-up, load, gateways | change | p95 before | after | ratio | after, without it "
        "| sessions moved | without it | more (wanted at most) | streams lost | failed |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for job, rows in outcomes.items():
        mean = {
            name: sum(getattr(row, name) for row in rows) / len(rows)
            for name in ScaleOutcome.__struct_fields__
        }
        before, after = mean["p95_before"], mean["p95_after"]
        # Only all three leave the fleet as large as it was.
        wanted = _AFTER_MAX if job.change is Change.ALL else float("inf")
        ratio = _marked(after / before, wanted)
        more = mean["moved"] - mean["moved_without"]
        limit = job.change.removed / find_setup(job.setup).replicas + _MOVED_MAX
        lines.append(
            f"| {job.setup} {job.load} %, {gateways_of(job)} | {job.change} "
            f"| {before:.2f} | {after:.2f} | {ratio} | {mean['p95_after_without']:.2f} "
            f"| {mean['moved']:.3f} | {mean['moved_without']:.3f} "
            f"| {_marked(more, limit, digits=3)} ({limit:.3f}) "
            f"| {mean['lost']:.0f} | {mean['failed']:.0f} |"
        )
    return "\n".join(lines)


def json_line(results: Results, setups: Sequence[str], decision_us: float) -> str:
    """The worst of the set-ups for each."""
    figures = {
        key: round(wanted.worst(results, setups, load), 3)
        for wanted in WANTED
        for load, key in wanted.keys.items()
    }
    return msgspec.json.encode({**figures, "decision_us_p99_512": round(decision_us, 1)}).decode()


def _wanted_cell(wanted: Wanted, results: Results, setups: Sequence[str], load: int) -> str:
    limit = wanted.limits.get(load)
    if limit is None:
        return ""
    try:
        found = [wanted.ratio(results, setup, load) for setup in setups]
    except KeyError:
        # The short run has only the cells that its JSON needs.
        return ""
    marked = [_marked(value, limit, is_least=wanted.is_least) for value in found]
    return f"{'≥' if wanted.is_least else '≤'} {limit:.2f}: {' '.join(marked)}"


def _marked(value: float, limit: float, *, is_least: bool = False, digits: int = 2) -> str:
    """In bold when it is not what is wanted."""
    is_met = value >= limit if is_least else value <= limit
    shown = f"{value:.{digits}f}"
    return shown if is_met else f"**{shown}**"
