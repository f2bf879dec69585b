"""The set-ups of the routing benchmark, and its runs, two at a time in processes of their own."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import msgspec

from fleet_simulator.agent_traffic import AgentTraffic, make_traffic
from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.cell import PENSTOCK, Cell, CellKnowledge, Change, run_cell
from fleet_simulator.figures import Figures, figures_of
from fleet_simulator.flight import TraceRequest
from fleet_simulator.scale_event import ScaleOutcome, run_scale_event, run_without_event
from fleet_simulator.trace import read_trace
from penstock.routing import RoutingSettings

LOADS = (50, 75, 92)
WARM_UP_SHARE = 0.1
DEFAULT, STRICT, NO_MARGIN = "", "strict", "no margin"
_PROCESSES = 2
_GENERATED = "agents"


class Setup(msgspec.Struct, frozen=True):
    """A trace on a fleet, and the speed-ups that load it to 50, 75 and 92 % of our capacity."""

    trace: str
    replicas: int
    speed_ups: tuple[float, float, float]
    # Stamps of the conversation trace are rounded to 3 s.
    jitter_seconds: float


SETUPS = {
    "A": Setup("conversation", 8, (1.34, 2.01, 2.46), 3.0),
    "C": Setup("conversation", 16, (3.02, 4.53, 5.55), 3.0),
    "D": Setup("synthetic", 8, (1.22, 1.83, 2.24), 0.001),
}
# For those without the traces. The loads are guesses: nobody has measured what it can carry.
GENERATED_SETUPS = {"agents": Setup(_GENERATED, 8, (1.0, 1.5, 1.84), 0.0)}


class Job(msgspec.Struct, frozen=True):
    """A row of the tables, to be run with several seeds."""

    setup: str
    load: int
    rule: str
    gateways: int = 1
    is_shared: bool = False
    variant: str = DEFAULT
    change: Change = Change.NONE


class Source(msgspec.Struct, frozen=True):
    """Where the requests come from, and how many of each trace are used (0: all)."""

    folder: Path
    requests_max: int = 0

    def missing(self, setups: Iterable[Setup]) -> list[Path]:
        paths = {self.path(setup.trace) for setup in setups if setup.trace != _GENERATED}
        return sorted(path for path in paths if not path.is_file())

    def path(self, trace: str) -> Path:
        return self.folder / f"{trace}_trace.jsonl"

    def read(self, trace: str) -> list[TraceRequest]:
        if trace == _GENERATED:
            requests = make_traffic(AgentTraffic(seconds=1800.0, sessions_per_second=0.8), seed=1)
        else:
            requests = read_trace(self.path(trace))
        return requests[: self.requests_max or None]


def find_setup(name: str) -> Setup:
    return SETUPS.get(name) or GENERATED_SETUPS[name]


def cell_of(job: Job, seed: int) -> Cell:
    setup = find_setup(job.setup)
    settings = RoutingSettings(block_tokens=BLOCK_TOKENS)
    if job.variant == NO_MARGIN:
        settings = msgspec.structs.replace(settings, near_margin=0.0, near_margin_silent=0.0)
    return Cell(
        rule=job.rule,
        replicas=setup.replicas,
        speed_up=setup.speed_ups[LOADS.index(job.load)],
        gateways=job.gateways,
        knowledge=CellKnowledge.SHARED if job.is_shared else CellKnowledge.OWN,
        seed=seed,
        jitter_seconds=setup.jitter_seconds,
        settings=settings,
        is_strict=job.variant == STRICT,
        change=job.change,
    )


def run_jobs(jobs: Sequence[Job], seeds: Sequence[int], source: Source) -> dict[Job, Figures]:
    """The means over the seeds."""
    found: dict[Job, list[Figures]] = defaultdict(list)
    for job, figures in _spread(_run_one, jobs, seeds, source):
        found[job].append(figures)
    return {job: mean_figures(found[job]) for job in jobs}


def run_scale_events(
    jobs: Sequence[Job], seeds: Sequence[int], source: Source
) -> dict[Job, list[ScaleOutcome]]:
    found: dict[Job, list[ScaleOutcome]] = defaultdict(list)
    for job, outcome in _spread(_run_scale_event, jobs, seeds, source):
        found[job].append(outcome)
    return dict(found)


def mean_figures(rows: Sequence[Figures]) -> Figures:
    columns = {
        name: sum(getattr(row, name) for row in rows) / len(rows)
        for name in Figures.__struct_fields__
    }
    return Figures(**columns)


Found = TypeVar("Found")


def _spread(
    run: Callable[[Job, int], Found], jobs: Sequence[Job], seeds: Sequence[int], source: Source
) -> Iterable[tuple[Job, Found]]:
    # The longest first, so that no process is left alone with one of them at the end.
    ordered = sorted(jobs, key=lambda job: (job.rule != PENSTOCK, -job.gateways))
    pairs = [(job, seed) for job in ordered for seed in seeds]
    context = get_context("spawn")
    with ProcessPoolExecutor(_PROCESSES, context, _load, (source,)) as pool:
        results = pool.map(run, *zip(*pairs, strict=True))
        for done, ((job, _), found) in enumerate(zip(pairs, results, strict=True), 1):
            if done % 20 == 0 or done == len(pairs):
                print(f"run {done} of {len(pairs)}", flush=True)
            yield job, found


# Each process reads a trace once.
_source: list[Source] = []
_traces: dict[str, list[TraceRequest]] = {}


def _load(source: Source) -> None:
    _source[:] = [source]


def _requests(job: Job) -> list[TraceRequest]:
    trace = find_setup(job.setup).trace
    if trace not in _traces:
        _traces[trace] = _source[0].read(trace)
    return _traces[trace]


def _run_one(job: Job, seed: int) -> Figures:
    flights = run_cell(cell_of(job, seed), _requests(job))
    return figures_of(flights, WARM_UP_SHARE * flights[-1].arrived)


def _run_scale_event(job: Job, seed: int) -> ScaleOutcome:
    cell, requests = cell_of(job, seed), _requests(job)
    return run_scale_event(cell, requests, run_without_event(cell, requests))
