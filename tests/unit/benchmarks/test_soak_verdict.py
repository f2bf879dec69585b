"""What a soak is judged by: half an hour of invented looks, one thing wrong in each."""

import msgspec
import pytest

from native_programs import Quantiles, Report
from soak_load import Kind, Slice
from soak_verdict import Mark, Plan, Seen, show
from soak_watch import Look

_PLAN = Plan(1800.0)
_PIDS = (11, 12)


def _quantiles(p50: float) -> Quantiles:
    return msgspec.convert(dict.fromkeys(Quantiles.__struct_fields__, p50), Quantiles)


def _slice(minute: int, kind: Kind, p50: float, *, failures: int = 0) -> Slice:
    began = minute * 60.0
    report = Report(
        requests=100,
        failures=failures,
        unfinished=0,
        elapsed_seconds=60.0,
        requests_per_second=100 / 60,
        events=0,
        events_per_second=0.0,
        body_bytes=0,
        latency_us=_quantiles(p50),
        first_token_us=_quantiles(p50),
        chunk_delay_us=_quantiles(p50),
        failure="",
    )
    return Slice(began, began + 60.0, kind, report)


def _looks(*, kilobytes_per_minute: float = 0.0) -> list[Look]:
    return [
        Look(minute * 60.0, 60_000 + kilobytes_per_minute * minute, 30, 33, 40)
        for minute in range(31)
    ]


def _seen(slices: list[Slice] | None = None, last_cpu: float = 40.0) -> Seen:
    """A quiet half hour: whole answers in 10 ms, streams' first tokens in 3, agents' in 9."""
    if slices is None:
        slices = [
            _slice(minute, kind, p50)
            for minute in range(30)
            for kind, p50 in ((Kind.WHOLE, 1e4), (Kind.STREAM, 3e3), (Kind.AGENT, 9e3))
        ]
    return Seen(
        plan=_PLAN,
        looks={pid: _looks() for pid in _PIDS},
        marks=[Mark(10.0, 1000), Mark(20.0, 2000), Mark(30.0, 3000), Mark(last_cpu, 4000)],
        loops=[(minute * 60.0, 3000.0) for minute in range(31)],
        slices=slices,
        rows=sum(each.report.requests for each in slices),
    )


def test_a_quiet_half_hour_has_no_faults() -> None:
    shown = show(_seen())
    assert shown.faults == []
    assert (shown.cpu_ratio, shown.latency_p50_us.ratio) == (1.0, 1.0)


def test_memory_that_grows_by_more_than_a_fiftieth_is_a_fault() -> None:
    seen = _seen()
    seen.looks[12] = _looks(kilobytes_per_minute=30)
    assert show(seen).faults == []
    seen.looks[12] = _looks(kilobytes_per_minute=60)
    assert show(seen).faults == ["memory grows"]


def test_more_cpu_for_a_request_is_a_fault_unless_the_machine_was_slower() -> None:
    seen = _seen(last_cpu=41.5)
    assert show(seen).faults == ["CPU for a request grows"]
    seen.loops = [(at, 3000.0 if at < 900 else 3600.0) for at, _ in seen.loops]
    assert show(seen).faults == []


def test_slower_answers_are_a_fault() -> None:
    slices = [_slice(minute, Kind.WHOLE, 1e4 if minute < 20 else 1.2e4) for minute in range(30)]
    slices += [_slice(minute, kind, 3e3) for minute in range(30) for kind in list(Kind)[1:]]
    assert show(_seen(slices)).faults == ["p50 grows"]


def test_streams_and_agents_are_not_mixed() -> None:
    """Slices do not begin together: at the end there may be one of the short streams fewer."""
    seen = _seen()
    seen.slices = [
        each for each in seen.slices if each.kind is not Kind.STREAM or each.began != 29 * 60.0
    ]
    shown = show(seen)
    assert (shown.first_token_p50_us.ratio, shown.agent_first_token_p50_us.ratio) == (1.0, 1.0)
    assert (shown.first_token_p50_us.last, shown.agent_first_token_p50_us.last) == (3e3, 9e3)


@pytest.mark.parametrize(
    ("rows_lost", "failures", "fault"),
    [
        (1, 0, "requests without a row in the ledger, or rows without one"),
        (0, 1, "a request failed"),
    ],
)
def test_what_is_lost_is_a_fault(rows_lost: int, failures: int, fault: str) -> None:
    seen = _seen()
    seen.rows -= rows_lost
    first = seen.slices[0]
    seen.slices[0] = _slice(0, first.kind, 1e4, failures=failures)
    assert show(seen).faults == [fault]
