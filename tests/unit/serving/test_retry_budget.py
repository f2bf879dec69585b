"""The retry budget: a share of the traffic and a small burst, in each ten seconds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serving.retry_budget import RetryBudget
from penstock.serving.settings import ServingSettings


def budget(burst: int, share: float) -> RetryBudget:
    return RetryBudget(ServingSettings(retry_burst=burst, retry_share_max=share))


def test_quiet_gateway_may_retry_up_to_the_burst() -> None:
    quiet = budget(3, 0.1)
    quiet.note_request(100.0)
    assert [quiet.allow_retry() for _ in range(5)] == [True, True, True, False, False]


def test_busy_gateway_may_retry_a_tenth() -> None:
    busy = budget(0, 0.1)
    for _ in range(200):
        busy.note_request(100.0)
    assert sum(busy.allow_retry() for _ in range(200)) == 20


def test_budget_is_renewed_after_ten_seconds() -> None:
    each = budget(1, 0.0)
    each.note_request(100.0)
    assert each.allow_retry()
    each.note_request(109.9)
    assert not each.allow_retry()
    each.note_request(110.0)
    assert each.allow_retry()
    assert not each.allow_retry()


def test_no_retries_at_all_may_be_set() -> None:
    none = budget(0, 0.0)
    for _ in range(1000):
        none.note_request(1.0)
    assert not none.allow_retry()


@pytest.mark.parametrize("start", [0.0, 5.0, 1e9])
def test_first_window_begins_with_the_first_request(start: float) -> None:
    each = budget(1, 0.0)
    each.note_request(start)
    assert each.allow_retry()
    assert not each.allow_retry()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 5),
    st.floats(0, 1),
    st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=80),
)
def test_retries_of_any_window_never_pass_burst_and_share(
    burst: int, share: float, steps: list[tuple[bool, float]]
) -> None:
    each = budget(burst, share)
    now, start, requests, retries = 1000.0, 1000.0, 0, 0
    each.note_request(now)
    requests += 1
    for is_request, pause in steps:
        now += pause
        if is_request:
            if now - start >= 10.0:
                start, requests, retries = now, 0, 0
            each.note_request(now)
            requests += 1
        elif each.allow_retry():
            retries += 1
            assert retries <= burst + share * requests
        else:
            assert retries + 1 > burst + share * requests
