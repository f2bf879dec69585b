"""Flex work behind live requests on a simulated fleet: what it costs them, what it fills.

Seeded. The figures at 100 replicas and over all loads are in docs/; benchmarks/flex_fleet.py.
"""

from functools import cache

import msgspec

from fleet_simulator.cell import PENSTOCK, Cell, CellKnowledge
from fleet_simulator.flex_cell import (
    FlexCell,
    FlexOutcome,
    run_flex_cell,
    throughput_ratio,
)
from fleet_simulator.flex_jobs import JobMix
from fleet_simulator.steady_prompts import SteadyPrompts, make_prompts

REPLICAS = 12
# Three quarters of the prompts that an engine can read.
REQUESTS_PER_REPLICA_SECOND = 3.0
# Prompts a second that fill an engine.
FULL_LOAD = 4.0
SMALL_JOBS = JobMix(
    prompt_tokens_min=64, prompt_tokens_max=128, output_tokens_min=48, output_tokens_max=48
)


def cell(replicas: int, mix: JobMix, start: float, end: float) -> FlexCell:
    one = Cell(
        rule=PENSTOCK,
        replicas=replicas,
        speed_up=1.0,
        gateways=2,
        knowledge=CellKnowledge.SHARED,
        exchange_seconds=0.1,
    )
    return FlexCell(cell=one, start=start, end=end, flex_from=2.0, mix=mix)


BESIDE = cell(REPLICAS, SMALL_JOBS, 10.0, 40.0)


@cache
def measured(*, has_flex: bool) -> FlexOutcome:
    rate = REQUESTS_PER_REPLICA_SECOND * REPLICAS
    requests = make_prompts(SteadyPrompts(seconds=50.0, requests_per_second=rate), seed=1)
    return run_flex_cell(msgspec.structs.replace(BESIDE, has_flex=has_flex), requests)


def test_live_requests_hardly_wait_for_a_deep_queue_of_jobs() -> None:
    ratio = measured(has_flex=True).live.ttft_p95 / measured(has_flex=False).live.ttft_p95
    # Recorded 1.15 here; the gate stands at 1.25 times that.
    assert ratio <= 1.25 * 1.15


def test_jobs_fill_what_live_requests_leave() -> None:
    beside, alone = measured(has_flex=True), measured(has_flex=False)
    # Recorded 0.94 of what bare engines do that are flooded with the same; 0.78 without jobs.
    assert throughput_ratio(BESIDE, beside) >= 0.94 / 1.25
    assert beside.tokens_per_engine_second > alone.tokens_per_engine_second
    assert beside.live.unfinished == 0


def test_jobs_that_waited_long_still_run_under_full_live_load() -> None:
    mix = msgspec.structs.replace(SMALL_JOBS, aged_from=300.0)
    flex = cell(2, mix, 300.0, 600.0)
    prompts = SteadyPrompts(seconds=610.0, requests_per_second=FULL_LOAD * 2)
    outcome = run_flex_cell(flex, make_prompts(prompts, seed=1))
    ended = [
        flight.finished_at
        for served in outcome.served.values()
        for flight in served
        if flight.is_flex and flight.finished_at is not None
    ]
    by_minute = [sum(minute <= at / 60 < minute + 1 for at in ended) for minute in range(10)]
    # Four slots at each replica, and a first token that takes 10 s: recorded 8 to 16 a minute.
    assert min(by_minute[6:]) >= 4, by_minute
    # Before that, nothing but what was there when the load came.
    assert sum(by_minute[1:5]) < min(by_minute[6:]), by_minute
