"""How many replicas a load asks for: growth ahead of time, slow shrinking, zero and back."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.fleet.cell.autoscale import (
    DeploymentLoad,
    LoadSample,
    ScaleTarget,
    replica_use,
    scale_target,
)
from penstock.records.deployment import DeploymentSpec

STEP_SECONDS = 10.0


def spec(low: int = 1, high: int = 8, **scale: float) -> DeploymentSpec:
    fields = {"model": "m", "replicas": {"min": low, "max": high}, "scale": scale}
    return msgspec.convert(fields, DeploymentSpec)


def load(*works: float, ready: int = 2, **facts: Any) -> DeploymentLoad:
    """A load that was sampled every ten seconds; the last one is now."""
    samples = [
        LoadSample(at=place * STEP_SECONDS, ready=ready, work=work)
        for place, work in enumerate(works)
    ]
    base = DeploymentLoad(
        samples=samples,
        first_token_p95_ms=None,
        start_seconds=60.0,
        changed_seconds=10_000.0,
        idle_seconds=0.0,
        slots=16,
    )
    return msgspec.structs.replace(base, **facts)


def waiting(requests: int, **facts: Any) -> DeploymentLoad:
    return load(ready=0, **facts, samples=[LoadSample(0.0, 0, 0.0, requests)])


def test_the_largest_share_is_the_use() -> None:
    idle: dict[str, Any] = {"uncached_rate": 0, "prefill_rate": 0, "in_flight": 0, "kv_use": 0}
    assert replica_use(slots=10, **idle) == 0.0
    reads = {**idle, "uncached_rate": 500.0, "prefill_rate": 1000.0}
    assert replica_use(slots=10, **reads) == 0.5
    assert replica_use(slots=10, **{**idle, "in_flight": 12}) == 1.2
    assert replica_use(slots=10, **{**idle, "kv_use": 0.9}) == 0.9


def test_work_beyond_the_line_asks_for_more() -> None:
    steady = [1.3] * 100
    assert scale_target(2, spec(), load(*steady)) is None
    grown = scale_target(2, spec(), load(*[1.5] * 100))
    assert grown == ScaleTarget(3, "2 replicas do the work of 1.5")
    assert scale_target(2, spec(high=2), load(*[1.5] * 100)) is None
    assert scale_target(2, spec(high=4), load(*[9.0] * 100)) == ScaleTarget(
        4, "2 replicas do the work of 9.0"
    )


def test_growth_is_met_before_it_comes() -> None:
    rising = [0.8 + 0.005 * place for place in range(100)]
    grown = scale_target(2, spec(), load(*rising, start_seconds=600.0))
    assert grown is not None
    assert grown.reason == "2 replicas do the work of 1.3, and 1.6 in 600 s"
    assert scale_target(2, spec(), load(*rising, start_seconds=10.0)) is None
    falling = list(reversed(rising))
    assert scale_target(2, spec(), load(*falling, start_seconds=600.0)) is None


def test_late_first_tokens_ask_for_one_more_only_where_replicas_are_busy() -> None:
    rules = spec(first_token_p95_ms=1500)
    late = load(*[1.3] * 100, first_token_p95_ms=1800.0)
    assert scale_target(2, rules, late) == ScaleTarget(
        3, "first tokens take 1800 ms (p95), and 1500 is meant"
    )
    # Long prompts are late on idle replicas too.
    assert scale_target(2, rules, load(*[0.9] * 100, first_token_p95_ms=1800.0)) is None
    # One that has just been added has to show its worth first.
    assert scale_target(2, rules, msgspec.structs.replace(late, changed_seconds=100.0)) is None
    assert scale_target(2, rules, msgspec.structs.replace(late, first_token_p95_ms=1400.0)) is None


def test_it_shrinks_by_one_after_the_cooldown_if_the_rest_had_been_enough() -> None:
    rules = spec(cooldown_seconds=300)
    assert scale_target(4, rules, load(*[1.5] * 100, ready=4)) == ScaleTarget(
        3, "3 replicas would be 50% in use"
    )
    # A peak within the cooldown would have been too much for the rest.
    peak = [1.5] * 80 + [2.5] * 8 + [1.5] * 12
    assert scale_target(4, rules, load(*peak, ready=4)) is None
    # Nobody has looked for long enough, or the count is new.
    assert scale_target(4, rules, load(*[1.5] * 20, ready=4)) is None
    assert scale_target(4, rules, load(*[1.5] * 100, ready=4, changed_seconds=200.0)) is None
    # What found no GPUs is wanted no longer.
    assert scale_target(5, rules, load(*[1.5] * 100, ready=3)) == ScaleTarget(
        4, "4 replicas would be 38% in use"
    )
    # First tokens are late already.
    assert scale_target(4, rules, load(*[1.5] * 100, ready=4, first_token_p95_ms=9000.0)) is None


def test_idleness_alone_ends_the_last_replica() -> None:
    idle = load(*[0.0] * 400, ready=1, idle_seconds=700.0)
    assert scale_target(1, spec(low=0), idle) is None
    to_zero = spec(low=0, idle_to_zero_minutes=10)
    assert scale_target(1, to_zero, idle) == ScaleTarget(0, "no request for 10 minutes")
    assert scale_target(3, to_zero, idle) == ScaleTarget(0, "no request for 10 minutes")
    assert scale_target(1, to_zero, msgspec.structs.replace(idle, idle_seconds=500.0)) is None
    assert scale_target(1, to_zero, msgspec.structs.replace(idle, has_due_jobs=True)) is None
    assert scale_target(1, to_zero, msgspec.structs.replace(idle, changed_seconds=60.0)) is None


def test_requests_that_wait_wake_one_replica() -> None:
    to_zero = spec(low=0, high=3, idle_to_zero_minutes=10)
    assert scale_target(0, to_zero, waiting(0)) is None
    assert scale_target(0, to_zero, waiting(1)) == ScaleTarget(1, "requests wait: 1")
    assert scale_target(0, to_zero, waiting(1000)) == ScaleTarget(1, "requests wait: 1000")
    # However many they are, it serves before others are started.
    assert scale_target(1, to_zero, waiting(1000)) is None
    assert scale_target(0, to_zero, waiting(0, has_due_jobs=True)) == ScaleTarget(1, "jobs are due")
    assert scale_target(0, spec(low=0, high=0), waiting(5)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": {"min": 1, "max": 2}, "scale": {"idle_to_zero_minutes": 5}},
        {
            "replicas": {"min": 0, "max": 2},
            "scale": {"idle_to_zero_minutes": 5},
            "accounts": ["acc_1"],
        },
    ],
)
def test_what_cannot_go_to_zero_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match="zero"):
        msgspec.convert({"model": "m", **fields}, DeploymentSpec)


@given(
    now=st.integers(0, 12),
    low=st.integers(0, 6),
    more=st.integers(0, 6),
    works=st.lists(st.floats(0, 50), min_size=1, max_size=120),
    facts=st.fixed_dictionaries(
        {
            "ready": st.integers(0, 12),
            "changed_seconds": st.floats(0, 5000),
            "idle_seconds": st.floats(0, 5000),
            "start_seconds": st.floats(0.1, 1000),
            "first_token_p95_ms": st.none() | st.floats(0, 1e5),
        }
    ),
)
def test_a_target_is_within_its_bounds_and_shrinks_by_one(
    now: int, low: int, more: int, works: list[float], facts: dict[str, Any]
) -> None:
    rules = spec(low=low, high=low + more)
    target = scale_target(now, rules, load(*works, **facts))
    if target is None:
        return
    assert target.count != now
    assert target.count <= low + more or target.count < now
    assert target.count >= min(now, max(1, low))
    assert target.count >= now - 1


@pytest.mark.parametrize("seed", range(5))
def test_an_hour_of_on_and_off_has_at_most_one_start_in_each_on_phase(seed: int) -> None:
    random = Random(seed)
    rules = spec(low=0, high=4, idle_to_zero_minutes=2, window_seconds=30)
    start_seconds = 45.0
    now = busy_at = changed_at = on_until = off_until = ready_at = 0.0
    target = phases = starts = 0
    samples: list[LoadSample] = []
    while now < 3600:
        now += 1.0
        if now > off_until:
            phases += 1
            on_until = now + random.uniform(20, 300)
            off_until = on_until + random.uniform(20, 400)
        is_on = now <= on_until
        ready = int(target > 0 and now >= ready_at)
        if is_on:
            busy_at = now
        work = random.uniform(0.2, 0.6) if is_on and ready else 0.0
        samples.append(LoadSample(now, ready, work, int(is_on and not ready)))
        seen = load(0.0, samples=samples[-900:], start_seconds=start_seconds)
        seen = msgspec.structs.replace(
            seen, changed_seconds=now - changed_at, idle_seconds=now - busy_at
        )
        wanted = scale_target(target, rules, seen)
        if wanted is not None:
            if wanted.count > target:
                starts += wanted.count - target
                ready_at = now + start_seconds
            target, changed_at = wanted.count, now
    assert 0 < starts <= phases
