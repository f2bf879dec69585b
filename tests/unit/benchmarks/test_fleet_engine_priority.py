"""The simulated engine with flex work in it: what is wanted now goes first, and jobs can leave."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.engine_model import SimulatedEngine
from fleet_simulator.flex_jobs import JobMix, JobQueue
from fleet_simulator.flight import Flight, TraceRequest, depart

CONSTANTS = EngineConstants()


def flight(prompt: int, output: int, first_block: int, *, is_flex: bool = False) -> Flight:
    request = TraceRequest(
        at=0.0,
        prompt_tokens=prompt,
        output_tokens=output,
        session=0,
        turn=0,
        earlier_tokens=0,
        blocks=tuple(range(first_block, first_block - (-prompt // 512))),
    )
    (made,) = depart([request], speed_up=1.0, jitter_seconds=0.0, random=Random(1))
    made.number = first_block
    made.is_flex = made.is_behind = is_flex
    return made


def finish(engine: SimulatedEngine) -> None:
    while engine.next_at is not None:
        engine.advance(engine.next_at)


def test_what_is_wanted_now_is_admitted_before_flex_work_that_came_earlier() -> None:
    engine = SimulatedEngine(EngineConstants(sequences_max=1))
    runs, job, live = flight(100, 5, 1), flight(100, 5, 2, is_flex=True), flight(100, 5, 3)
    for each in (runs, job, live):
        engine.submit(each, 0.0)
    finish(engine)
    assert runs.first_at is not None
    assert live.first_at is not None
    assert job.first_at is not None
    assert runs.first_at < live.first_at < job.first_at


def test_flex_work_makes_room_before_older_and_younger_live_requests() -> None:
    engine = SimulatedEngine(EngineConstants(kv_tokens=6 * 512))
    old, job, young = (
        flight(1000, 600, 10),
        flight(1000, 600, 20, is_flex=True),
        flight(1000, 9, 30),
    )
    for each in (old, job, young):
        engine.submit(each, 0.0)
    finish(engine)
    assert job.preemptions >= 1
    assert old.preemptions == young.preemptions == 0
    assert job.finished_at is not None


@pytest.mark.parametrize("when", [0.0, 0.05, 1.0])
def test_job_that_is_given_up_leaves_nothing_behind(when: float) -> None:
    engine = SimulatedEngine(CONSTANTS)
    live, job = flight(5000, 400, 10), flight(9000, 400, 50, is_flex=True)
    engine.submit(live, 0.0)
    engine.submit(job, 0.0)
    while engine.next_at is not None and engine.next_at <= when:
        engine.advance(engine.next_at)
    engine.give_up(job, when)
    finish(engine)
    assert job.finished_at is None
    assert live.finished_at is not None
    assert (engine.in_flight, engine.pending_tokens, engine.waiting_prompt_tokens) == (0, 0, 0)
    assert (engine.flex_in_flight, engine.flex_prompt_tokens) == (0, 0)
    assert engine.cache.use == 0


rows = st.lists(
    st.tuples(st.integers(1, 4000), st.integers(1, 300), st.booleans(), st.integers(0, 40)),
    min_size=1,
    max_size=15,
)


@settings(max_examples=60)
@given(rows, st.integers(10, 24))
def test_every_request_ends_or_was_given_up(
    rows: list[tuple[int, int, bool, int]], kv_blocks: int
) -> None:
    constants = EngineConstants(kv_tokens=kv_blocks * 512, budget_tokens=1024, sequences_max=5)
    engine = SimulatedEngine(constants)
    flights = [
        flight(prompt, output, 100 * number, is_flex=is_flex)
        for number, (prompt, output, is_flex, _) in enumerate(rows)
    ]
    for each in flights:
        engine.submit(each, 0.0)
    leaving = {
        steps: each
        for each, (_, _, is_flex, steps) in zip(flights, rows, strict=True)
        if is_flex and steps % 2
    }
    gone: list[Flight] = []
    step = 0
    while engine.next_at is not None:
        now = engine.next_at
        engine.advance(now)
        step += 1
        job = leaving.get(step)
        if job is not None and job.finished_at is None:
            engine.give_up(job, now)
            gone.append(job)
    assert all(each.finished_at is not None for each in flights if each not in gone)
    assert (engine.in_flight, engine.flex_in_flight, engine.pending_tokens) == (0, 0, 0)


def test_job_handed_back_comes_first_again_as_a_new_flight() -> None:
    queue = JobQueue(JobMix(), 1)
    first = queue.take(7, 1.0)
    queue.put_back(first)
    again = queue.take(8, 2.0)
    assert again.request is first.request
    assert again.number != first.number
    assert (again.gateway, again.arrived, again.is_flex) == (8, 2.0, True)
    assert queue.take(8, 2.0).request is not first.request
