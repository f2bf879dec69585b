"""The simulated engine: its times by hand, and that taking steps together changes nothing."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.engine_model import SimulatedEngine
from fleet_simulator.flight import Flight, TraceRequest, depart

CONSTANTS = EngineConstants()
A, B = CONSTANTS.step_seconds, CONSTANTS.prefill_seconds_per_token
C, D = CONSTANTS.decode_seconds_per_sequence, CONSTANTS.kv_seconds_per_token


class OneStepEngine(SimulatedEngine):
    """Takes each step by itself."""

    def _count_equal_steps(self) -> int:
        return 1


def request(at: float, prompt: int, output: int, blocks: tuple[int, ...] = ()) -> TraceRequest:
    return TraceRequest(
        at=at,
        prompt_tokens=prompt,
        output_tokens=output,
        session=0,
        turn=0,
        earlier_tokens=0,
        blocks=blocks or tuple(range(-(-prompt // 512))),
    )


def fly(engine: SimulatedEngine, *requests: TraceRequest) -> list[Flight]:
    """Run them all through one engine."""
    flights = depart(requests, speed_up=1.0, jitter_seconds=0.0, random=Random(1))
    coming = list(flights)
    while coming or engine.next_at is not None:
        if coming and (engine.next_at is None or coming[0].arrived <= engine.next_at):
            flight = coming.pop(0)
            engine.submit(flight, flight.arrived)
        else:
            assert engine.next_at is not None
            engine.advance(engine.next_at)
    return flights


def test_prompt_within_the_budget_takes_one_step_and_each_token_another() -> None:
    (flight,) = fly(SimulatedEngine(CONSTANTS), request(0.0, 1000, 3))
    assert flight.first_at == pytest.approx(A + B * 1000)
    assert flight.first_at is not None
    assert flight.finished_at == pytest.approx(flight.first_at + 2 * (A + C) + D * (1000 + 1001))


def test_long_prompt_is_prefilled_in_chunks_of_the_budget() -> None:
    (flight,) = fly(SimulatedEngine(CONSTANTS), request(0.0, 20_000, 1))
    assert flight.first_at == pytest.approx(3 * A + B * 20_000 + D * (8192 + 16_384))


def test_decoding_sequences_take_their_token_out_of_the_budget_first() -> None:
    first, second = fly(
        SimulatedEngine(CONSTANTS), request(0.0, 100, 50), request(0.001, 8192, 1, (7,) * 16)
    )
    assert first.first_at is not None
    # 8191 tokens in the first step, one in the second.
    steps = 2 * (A + C) + B * 8192 + D * (100 + 101 + 8191)
    assert second.first_at == pytest.approx(first.first_at + steps)


def test_same_prompt_again_hits_all_but_its_last_block() -> None:
    blocks = (1, 2, 3, 4)
    flights = fly(
        SimulatedEngine(CONSTANTS), request(0.0, 2048, 5, blocks), request(9.0, 2048, 5, blocks)
    )
    assert [flight.cached_tokens for flight in flights] == [0, 3 * 512]


def test_blocks_used_longest_ago_are_forgotten_first() -> None:
    engine = SimulatedEngine(EngineConstants(kv_tokens=4 * 512))
    flights = fly(
        engine,
        request(0.0, 1025, 1, (1, 2, 3)),
        request(1.0, 1025, 1, (4, 5, 6)),
        request(2.0, 1025, 1, (1, 2, 7)),
    )
    # The first prompt's second block went before its first, so nothing but one block is left.
    assert flights[2].cached_tokens == 512


def test_arrival_is_admitted_at_the_end_of_the_step_that_runs() -> None:
    engine = SimulatedEngine(CONSTANTS)
    first, second = fly(engine, request(0.0, 100, 400), request(3.0, 100, 1, (9,)))
    assert first.first_at is not None
    assert second.first_at is not None
    assert 0 < second.first_at - 3.0 < 2 * (A + C + B * 100) + D * 1000
    assert first.finished_at is not None
    assert first.finished_at > second.first_at


def test_youngest_is_computed_again_when_blocks_run_out() -> None:
    engine = SimulatedEngine(EngineConstants(kv_tokens=4 * 512))
    old, young = fly(engine, request(0.0, 1000, 600, (1, 2)), request(0.1, 1000, 600, (3, 4)))
    assert old.preemptions == 0
    assert young.preemptions >= 1
    assert old.finished_at is not None
    assert young.finished_at is not None
    assert old.finished_at < young.finished_at


def test_dead_engine_hands_back_what_it_had() -> None:
    engine = SimulatedEngine(CONSTANTS)
    flights = depart(
        [request(0.0, 100, 5), request(0.0, 200, 5)],
        speed_up=1.0,
        jitter_seconds=0.0,
        random=Random(1),
    )
    for flight in flights:
        engine.submit(flight, 0.0)
    assert engine.kill() == flights
    assert engine.next_at is None


arrivals = st.lists(
    st.tuples(st.floats(0.0, 3.0), st.integers(1, 4000), st.integers(1, 700), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(arrivals, st.integers(10, 24))
def test_steps_taken_together_are_the_steps_taken_one_by_one(
    rows: list[tuple[float, int, int, int]], kv_blocks: int
) -> None:
    constants = EngineConstants(kv_tokens=kv_blocks * 512, budget_tokens=1024, sequences_max=5)
    requests = [
        request(at, prompt, output, tuple(family * 10 + i for i in range(-(-prompt // 512))))
        for at, prompt, output, family in rows
    ]
    together = fly(SimulatedEngine(constants), *requests)
    singly = fly(OneStepEngine(constants), *requests)
    for one, other in zip(together, singly, strict=True):
        assert one.first_at == pytest.approx(other.first_at)
        assert one.finished_at == pytest.approx(other.finished_at)
        assert one.cached_tokens == other.cached_tokens
        assert one.preemptions == other.preemptions
