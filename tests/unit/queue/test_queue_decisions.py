"""The queue's pure parts: pauses, averages, waits, and the table of states."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.queue import TRANSITIONS, QueueSettings
from penstock.queue.back_off import pause_seconds
from penstock.queue.rates import blend, wait_seconds
from penstock.queue.rows import signed
from penstock.records.job import JobState

POSITIVE = st.floats(0.001, 1e6)


def test_every_state_is_in_the_table_and_final_ones_lead_nowhere() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert all(state.is_final == (not others) for state, others in TRANSITIONS.items())


def test_every_state_can_be_reached_from_the_queue() -> None:
    reached = {JobState.QUEUED}
    for _ in JobState:
        reached |= {other for state in reached for other in TRANSITIONS[state]}
    assert reached == set(JobState)


@given(st.integers(0, 10_000), st.floats(0, 3600), st.floats(0, 86_400))
def test_a_pause_grows_up_to_its_maximum(attempts: int, first: float, most: float) -> None:
    settings = QueueSettings(retry_seconds=first, retry_seconds_max=most)
    pause = pause_seconds(attempts, settings)
    assert min(first, most) <= pause <= most
    assert pause <= pause_seconds(attempts + 1, settings)


def test_a_pause_doubles() -> None:
    settings = QueueSettings(retry_seconds=1, retry_seconds_max=60)
    assert [pause_seconds(n, settings) for n in (1, 2, 3, 8)] == [1, 2, 4, 60]


@given(POSITIVE, POSITIVE, st.floats(0, 1e6), POSITIVE)
def test_an_average_lies_between_old_and_new(
    old: float, sample: float, seconds: float, window: float
) -> None:
    average = blend(old, sample, seconds, window)
    assert min(old, sample) * 0.999 <= average <= max(old, sample) * 1.001


def test_the_first_sample_stands_alone_and_an_old_average_fades() -> None:
    assert blend(None, 7, 1, 60) == 7
    assert blend(1, 0, 60, 60) == pytest.approx(1 / math.e)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0, 1), POSITIVE)
def test_nobody_waits_longer_than_the_whole_queue_takes(
    position: int, queued: int, share: float, rate: float
) -> None:
    wait = wait_seconds(position, queued, share, rate)
    assert wait is not None
    assert position / rate * 0.999 <= wait <= max(position, queued) / rate


def test_without_a_rate_no_wait_is_promised() -> None:
    assert wait_seconds(1, 1, 1, None) is None
    assert wait_seconds(1, 1, 1, 0.0) is None
    # Nobody waited when it was measured: the rate is that at which jobs came.
    assert wait_seconds(1, 0, 1, 0.1) is None


@given(st.integers(0, 2**64 - 1))
def test_a_hash_keeps_its_bits(number: int) -> None:
    assert -(2**63) <= signed(number) < 2**63
    assert signed(number) % 2**64 == number
