"""Rollouts, step by step: what starts, what ends, when it halts; and in any order of events."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.fleet.cell.judge import Verdict
from penstock.fleet.cell.rollout import (
    Comparison,
    Decision,
    DeploymentState,
    PlacedReplica,
    RolloutStage,
    decide,
)
from penstock.records.deployment import RolloutRules


def replica(name: str, launch: int = 1, *, age: float = 100.0, **facts: bool) -> PlacedReplica:
    known = {"is_ready": True, "is_ending": False, **facts}
    known.setdefault("is_draining", known["is_ending"])
    return PlacedReplica(name, launch, age_seconds=age, **known)


def state(*replicas: PlacedReplica, **facts: object) -> DeploymentState:
    base = DeploymentState(
        target=2,
        launch=2,
        stable=1,
        stage=RolloutStage.DONE,
        stage_seconds=0.0,
        is_paused=False,
        rules=RolloutRules(),
        start_seconds_max=300.0,
        replicas=replicas,
    )
    return msgspec.structs.replace(base, **facts)


def test_a_first_launch_starts_what_is_wanted_and_proves_itself() -> None:
    assert decide(state(launch=1, stable=None)) == Decision({1: 2}, {}, RolloutStage.ROLLING)
    begun = state(replica("a", is_ready=False), replica("b"), launch=1, stable=None)
    assert decide(begun) == Decision({}, {}, RolloutStage.DONE, stable=1)


def test_at_zero_no_launch_proves_itself() -> None:
    asleep = decide(state(target=0, stage=RolloutStage.ROLLING))
    assert (asleep.stage, asleep.stable) == (RolloutStage.DONE, None)
    canaries = state(target=0, stage=RolloutStage.CANARY, rules=RolloutRules(canary=1))
    assert decide(canaries) == Decision({}, {}, RolloutStage.DONE)
    woken = decide(state(target=1, stage=RolloutStage.DONE))
    assert woken.starts == {2: 1}
    # One that does not start gives way to the launch that did.
    broken = state(replica("a", 2, age=1000, is_ready=False), target=1, stage=RolloutStage.ROLLING)
    assert decide(broken).stage is RolloutStage.HALTED


def test_a_changed_count_starts_no_rollout() -> None:
    two = (replica("a", age=50), replica("b", age=90))
    assert decide(state(*two, launch=1, target=3)).starts == {1: 1}
    assert decide(state(*two, launch=1, target=1)).ends == {"a": "not wanted"}
    unready = (replica("a", age=500, is_ready=False), replica("b", age=90))
    assert decide(state(*unready, launch=1, target=1)).ends == {"a": "not wanted"}


def test_a_surge_comes_first_and_an_old_one_ends_when_it_serves() -> None:
    old = (replica("a"), replica("b"))
    first = decide(state(*old))
    assert (first.starts, first.ends, first.stage) == ({2: 1}, {}, RolloutStage.ROLLING)
    starting = state(*old, replica("c", 2, is_ready=False), stage=RolloutStage.ROLLING)
    assert decide(starting) == Decision({}, {}, RolloutStage.ROLLING)
    serves = decide(state(*old, replica("c", 2), stage=RolloutStage.ROLLING))
    assert (serves.starts, len(serves.ends)) == ({}, 1)
    ending = state(
        replica("a", is_ending=True), replica("b"), replica("c", 2), stage=RolloutStage.ROLLING
    )
    assert decide(ending).starts == {2: 1}
    done = decide(state(replica("c", 2), replica("d", 2), stage=RolloutStage.ROLLING))
    assert (done.stage, done.stable) == (RolloutStage.DONE, 2)


def test_without_room_for_a_surge_one_at_a_time_makes_place() -> None:
    old = (replica("a"), replica("b"))
    stuck = decide(state(*old, stage=RolloutStage.ROLLING, has_no_room=True))
    assert len(stuck.ends) == 1
    no_surge = state(*old, stage=RolloutStage.ROLLING, rules=RolloutRules(surge=0))
    assert (decide(no_surge).starts, len(decide(no_surge).ends)) == ({}, 1)
    waits = state(replica("a"), replica("c", 2, is_ready=False), stage=RolloutStage.ROLLING)
    waits = msgspec.structs.replace(waits, rules=RolloutRules(surge=0))
    assert decide(waits) == Decision({}, {}, RolloutStage.ROLLING)


CANARY = RolloutRules(canary=1, canary_minutes=10)


def canary(*replicas: PlacedReplica, **facts: object) -> DeploymentState:
    return state(*replicas, rules=CANARY, **facts)


def test_a_canary_is_compared_before_the_others_follow() -> None:
    old = (replica("a"), replica("b"))
    assert decide(canary(*old)) == Decision({2: 1}, {}, RolloutStage.CANARY)
    serves = decide(canary(*old, replica("c", 2), stage=RolloutStage.CANARY))
    assert (serves.stage, serves.starts, len(serves.ends)) == (RolloutStage.COMPARING, {}, 1)
    both = (replica("a"), replica("c", 2))
    equal = Comparison(Verdict.EQUAL, "as before")
    waiting = canary(*both, stage=RolloutStage.COMPARING, stage_seconds=599.0, comparison=equal)
    assert decide(waiting) == Decision({}, {}, RolloutStage.COMPARING, reason="as before")
    passed = decide(msgspec.structs.replace(waiting, stage_seconds=600.0))
    assert (passed.stage, passed.starts) == (RolloutStage.ROLLING, {2: 1})


def test_a_worse_canary_halts_and_the_old_launch_is_whole_again() -> None:
    both = (replica("a"), replica("c", 2))
    worse = Comparison(Verdict.WORSE, "slow")
    halted = decide(
        canary(*both, stage=RolloutStage.COMPARING, stage_seconds=60.0, comparison=worse)
    )
    assert halted == Decision(
        {1: 1},
        {"c": "the rollout was halted"},
        RolloutStage.HALTED,
        reason="the canary is worse: slow",
    )
    still = decide(canary(replica("a"), replica("d"), stage=RolloutStage.HALTED))
    assert still == Decision({}, {}, RolloutStage.HALTED)


def test_a_launch_that_never_serves_halts_and_the_old_ones_stay() -> None:
    late = replica("c", 2, is_ready=False, age=451.0)
    halted = decide(state(replica("a"), replica("b"), late, stage=RolloutStage.ROLLING))
    assert (halted.stage, list(halted.ends)) == (RolloutStage.HALTED, ["c"])
    assert halted.reason == "a new replica is not ready after 450 s"


def test_a_lost_old_replica_is_replaced_while_canaries_are_compared() -> None:
    lost = canary(replica("c", 2), stage=RolloutStage.COMPARING, stage_seconds=5.0)
    assert decide(lost).starts == {1: 1}


def test_paused_nothing_rolls_and_what_is_lost_is_replaced() -> None:
    both = (replica("a"), replica("c", 2))
    assert decide(state(*both, is_paused=True)) == Decision({}, {}, RolloutStage.DONE)
    assert decide(state(replica("c", 2), is_paused=True)).starts == {1: 1}


def test_back_to_the_stable_launch_is_a_rollout_too() -> None:
    back = state(replica("a"), replica("c", 2), launch=1, stage=RolloutStage.DONE)
    assert decide(back) == Decision({1: 1}, {}, RolloutStage.ROLLING)
    served = state(
        replica("a"), replica("b"), replica("c", 2), launch=1, stage=RolloutStage.ROLLING
    )
    assert decide(served).ends == {"c": "replaced by another revision"}


_replicas = st.lists(
    st.builds(
        PlacedReplica,
        assignment=st.uuids().map(str),
        launch=st.integers(1, 3),
        is_ready=st.booleans(),
        is_ending=st.booleans(),
        age_seconds=st.floats(0, 1000),
    ),
    max_size=8,
    unique_by=lambda each: each.assignment,
)
_states = st.builds(
    DeploymentState,
    target=st.integers(0, 6),
    launch=st.integers(1, 3),
    stable=st.none() | st.integers(1, 3),
    stage=st.sampled_from(RolloutStage),
    stage_seconds=st.floats(0, 2000),
    is_paused=st.booleans(),
    rules=st.builds(
        RolloutRules,
        surge=st.integers(0, 2),
        unavailable=st.integers(0, 2),
        canary=st.integers(0, 3),
    ),
    start_seconds_max=st.just(300.0),
    replicas=_replicas,
    comparison=st.none() | st.builds(Comparison, st.sampled_from(Verdict), st.just("")),
    has_no_room=st.booleans(),
)


@settings(max_examples=300)
@given(_states)
def test_no_step_starts_too_many_or_ends_what_must_serve(before: DeploymentState) -> None:
    decision = decide(before)
    live = {each.assignment: each for each in before.replicas if not each.is_ending}
    assert set(decision.ends) <= set(live)
    starts = sum(decision.starts.values())
    is_rolling = decision.stage in (
        RolloutStage.ROLLING,
        RolloutStage.CANARY,
        RolloutStage.COMPARING,
    )
    if starts and is_rolling and before.stable not in (None, before.launch):
        allowed = before.target + before.rules.surge
        is_replacing = before.stable in decision.starts
        assert is_replacing or len(live) + starts <= allowed
    if is_rolling and not before.is_paused:
        serving = sum(each.is_ready for each in live.values())
        ended = sum(live[name].is_ready for name in decision.ends)
        # At most one below what is wanted, and that only where nothing else makes room.
        slack = max(before.rules.unavailable, 1)
        assert not ended or serving - ended >= before.target - slack


@settings(max_examples=60)
@given(_states)
def test_a_world_in_which_all_goes_well_comes_to_rest_as_wanted(before: DeploymentState) -> None:
    now = msgspec.structs.replace(
        before, comparison=Comparison(Verdict.EQUAL, ""), is_paused=False, has_no_room=False
    )
    for number in range(200):
        decision = decide(now)
        replicas = [
            msgspec.structs.replace(each, is_ready=True, age_seconds=10.0)
            for each in now.replicas
            if not each.is_ending and each.assignment not in decision.ends
        ]
        for launch, count in decision.starts.items():
            replicas += [
                PlacedReplica(f"{number}-{launch}-{n}", launch, False, False, 0.0)
                for n in range(count)
            ]
        stable = decision.stable if decision.stable is not None else now.stable
        seconds = now.stage_seconds + 60 if decision.stage is now.stage else 0.0
        now = msgspec.structs.replace(
            now, replicas=replicas, stage=decision.stage, stable=stable, stage_seconds=seconds
        )
    kept = now.launch if now.stage is not RolloutStage.HALTED else now.stable
    assert {each.launch for each in now.replicas} <= {kept}
    assert len(now.replicas) == now.target
    assert now.stage in (RolloutStage.DONE, RolloutStage.HALTED) or not now.target
    assert decide(now).starts == {}
    assert decide(now).ends == {}
