"""What a soak has shown, and what of it is wrong. Pure: it takes what was seen.

The first minutes after the warm-up are compared with the last ones. A run of less than 15 minutes
tells those figures and does not judge them: 0.2 MB are 10 % then, and so is a neighbour's minute.
"""

from collections.abc import Iterable
from statistics import fmean, linear_regression, median

import msgspec

from soak_load import Kind, Slice
from soak_watch import Look

_WARM_UP_SECONDS = 300.0
_WINDOW_SECONDS = 300.0
_JUDGED_SECONDS_MIN = 15 * 60.0
_GROWTH_PERCENT_MAX = 2.0
_RATIO_MAX = 1.1
# A journal's next file may be open already, or a connection to Postgres be renewed.
_FILES_MORE_MAX = 2
_CONNECTIONS_RATIO_MAX = 1.1


class Span(msgspec.Struct, frozen=True):
    """Seconds of the run."""

    begin: float
    end: float

    def has(self, at: float) -> bool:
        return self.begin <= at <= self.end


class Plan(msgspec.Struct, frozen=True):
    """How long: of a short run a quarter is warm-up, and a quarter each is compared."""

    seconds: float

    @property
    def is_judged(self) -> bool:
        return self.seconds >= _JUDGED_SECONDS_MIN

    @property
    def first(self) -> Span:
        warm_up = min(_WARM_UP_SECONDS, self.seconds / 4)
        return Span(warm_up, warm_up + self._window)

    @property
    def last(self) -> Span:
        return Span(self.seconds - self._window, self.seconds)

    @property
    def slice_seconds(self) -> float:
        return self._window / 5

    @property
    def _window(self) -> float:
        return min(_WINDOW_SECONDS, self.seconds / 4)


class Mark(msgspec.Struct, frozen=True):
    """The whole gateway at one moment: CPU so far, and requests that have ended."""

    cpu_seconds: float
    requests: int

    def microseconds_to(self, later: "Mark") -> float:
        """CPU for each request in between."""
        requests = max(1, later.requests - self.requests)
        return (later.cpu_seconds - self.cpu_seconds) * 1e6 / requests


class Change(msgspec.Struct, frozen=True):
    """A figure in the first minutes and in the last."""

    first: float
    last: float
    ratio: float


class WorkerShown(msgspec.Struct, frozen=True):
    """One worker, and how it grew."""

    first_mb: float
    last_mb: float
    growth_percent_per_30_minutes: float
    files: Change


class Seen(msgspec.Struct, kw_only=True):
    """Everything that the run was watched by."""

    plan: Plan
    looks: dict[int, list[Look]] = {}
    # At the beginning and the end of the first minutes, and of the last.
    marks: list[Mark] = []
    # When the calibration loop ran, and its microseconds.
    loops: list[tuple[float, float]] = []
    slices: list[Slice] = []
    rows: int = 0
    clients_left: int = 0
    is_worker_lost: bool = False


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The line of JSON."""

    minutes: float
    requests: int
    requests_per_second: float
    failed: int
    first_failure: str
    rows: int
    workers: list[WorkerShown]
    clients: Change
    engines: Change
    clients_left: int
    cpu_us_per_request: Change
    calibration_us: Change
    # How the first changed beside how the second did.
    cpu_ratio: float
    latency_p50_us: Change
    first_token_p50_us: Change
    chunk_delay_p50_us: Change
    agent_first_token_p50_us: Change
    agent_chunk_delay_p50_us: Change
    is_worker_lost: bool
    is_slope_judged: bool
    faults: list[str]


def show(seen: Seen) -> Shown:
    """All figures, with those that are not as they should be."""
    plan = seen.plan
    reports = [each.report for each in seen.slices]
    whole, streams, agents = (
        [each for each in seen.slices if each.kind is kind]
        for kind in (Kind.WHOLE, Kind.STREAM, Kind.AGENT)
    )
    begin, first_end, last_begin, end = seen.marks
    cpu = _change(begin.microseconds_to(first_end), last_begin.microseconds_to(end))
    loops = _medians(plan, seen.loops)
    looks = [look for looks in seen.looks.values() for look in looks]
    requests = sum(report.requests for report in reports)
    shown = Shown(
        minutes=round(plan.seconds / 60, 1),
        requests=requests,
        requests_per_second=round(requests / plan.seconds, 1),
        failed=sum(report.failures + report.unfinished for report in reports),
        first_failure=next((report.failure for report in reports if report.failure), ""),
        rows=seen.rows,
        workers=[_worker(plan, looks) for looks in seen.looks.values()],
        clients=_medians(plan, _sums((look.at, look.clients) for look in looks)),
        engines=_medians(plan, _sums((look.at, look.engines) for look in looks)),
        clients_left=seen.clients_left,
        cpu_us_per_request=cpu,
        calibration_us=loops,
        cpu_ratio=round(cpu.ratio / loops.ratio, 3),
        latency_p50_us=_medians(plan, [(_at(s), s.report.latency_us.p50) for s in whole]),
        first_token_p50_us=_first_tokens(plan, streams),
        chunk_delay_p50_us=_chunk_delays(plan, streams),
        agent_first_token_p50_us=_first_tokens(plan, agents),
        agent_chunk_delay_p50_us=_chunk_delays(plan, agents),
        is_worker_lost=seen.is_worker_lost,
        is_slope_judged=plan.is_judged,
        faults=[],
    )
    return msgspec.structs.replace(shown, faults=_faults(shown))


def _faults(shown: Shown) -> list[str]:
    wrong = {
        "a request failed": shown.failed > 0,
        "requests without a row in the ledger, or rows without one": shown.rows != shown.requests,
        "a worker was lost": shown.is_worker_lost,
        "connections of clients that have left": shown.clients_left > 0,
        "more open files": any(
            worker.files.last > worker.files.first + _FILES_MORE_MAX for worker in shown.workers
        ),
    }
    if shown.is_slope_judged:
        growth = max(worker.growth_percent_per_30_minutes for worker in shown.workers)
        wrong |= {
            "memory grows": growth > _GROWTH_PERCENT_MAX,
            "more connections of clients": shown.clients.ratio > _CONNECTIONS_RATIO_MAX,
            "more connections to engines": shown.engines.ratio > _CONNECTIONS_RATIO_MAX,
            "CPU for a request grows": shown.cpu_ratio > _RATIO_MAX,
            "p50 grows": shown.latency_p50_us.ratio > _RATIO_MAX,
        }
    return [fault for fault, is_so in wrong.items() if is_so]


def _worker(plan: Plan, looks: list[Look]) -> WorkerShown:
    warm = [look for look in looks if plan.first.begin <= look.at <= plan.seconds]
    kilobytes = [look.rss_kilobytes for look in warm]
    slope = linear_regression([look.at for look in warm], kilobytes).slope
    return WorkerShown(
        first_mb=round(kilobytes[0] / 1024, 1),
        last_mb=round(kilobytes[-1] / 1024, 1),
        growth_percent_per_30_minutes=round(slope * 1800 / fmean(kilobytes) * 100, 2),
        files=_medians(plan, [(look.at, look.files) for look in looks]),
    )


def _first_tokens(plan: Plan, slices: list[Slice]) -> Change:
    return _medians(plan, [(_at(each), each.report.first_token_us.p50) for each in slices])


def _chunk_delays(plan: Plan, slices: list[Slice]) -> Change:
    return _medians(plan, [(_at(each), each.report.chunk_delay_us.p50) for each in slices])


def _at(each: Slice) -> float:
    return (each.began + each.ended) / 2


def _sums(values: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """All workers together, moment by moment."""
    sums: dict[float, float] = {}
    for at, value in values:
        sums[at] = sums.get(at, 0.0) + value
    return list(sums.items())


def _medians(plan: Plan, values: list[tuple[float, float]]) -> Change:
    first, last = (
        median(value for at, value in values if span.has(at)) for span in (plan.first, plan.last)
    )
    return _change(first, last)


def _change(first: float, last: float) -> Change:
    return Change(round(first, 1), round(last, 1), round(last / first, 3) if first else 0.0)
