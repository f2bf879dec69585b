"""The rule: least in flight by share of slots, ties go round, those excluded are never picked."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.routing.outstanding import Outstanding
from penstock.routing.pick import least_in_flight


def replica(name: str, slots: int = 10) -> Replica:
    return Replica(
        id=ReplicaId(name),
        model=ModelId("m"),
        url=f"http://{name}",
        state=ReplicaState.READY,
        served_name="m",
        slots_live=slots,
    )


def in_flight(**counts: int) -> Outstanding:
    outstanding = Outstanding()
    for name, count in counts.items():
        for _ in range(count):
            outstanding.add(ReplicaId(name))
    return outstanding


def test_replica_with_the_fewest_in_flight_is_picked() -> None:
    replicas = [replica("a"), replica("b"), replica("c")]
    for start in range(6):
        outstanding = in_flight(a=3, b=1, c=2)
        picked = least_in_flight(replicas, outstanding, excluded=(), start=start)
        assert picked is replicas[1]


def test_share_of_slots_counts_and_not_the_number() -> None:
    large, small = replica("large", 100), replica("small", 2)
    outstanding = in_flight(large=20, small=1)
    assert least_in_flight([small, large], outstanding, excluded=(), start=0) is large


def test_ties_go_round() -> None:
    replicas = [replica(name) for name in "abcd"]
    picked = [
        least_in_flight(replicas, in_flight(), excluded=(), start=start) for start in range(40)
    ]
    counts = Counter(each.id for each in picked if each is not None)
    assert set(counts.values()) == {10}


def test_ties_among_the_least_loaded_go_round_too() -> None:
    replicas = [replica(name) for name in "abcd"]
    picked = {
        least_in_flight(replicas, in_flight(a=5, b=1, c=1, d=1), excluded=(), start=start)
        for start in range(12)
    }
    assert picked == set(replicas[1:])


def test_nothing_is_picked_from_nothing_or_when_all_are_excluded() -> None:
    assert least_in_flight([], Outstanding(), excluded=(), start=3) is None
    only = replica("a")
    assert least_in_flight([only], Outstanding(), excluded={only.id}, start=0) is None


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60), st.booleans()), max_size=8),
    st.integers(0, 1000),
)
def test_pick_is_a_least_loaded_one_that_is_not_excluded(
    world: list[tuple[int, int, bool]], start: int
) -> None:
    replicas = [replica(f"r{n}", slots) for n, (slots, _, _) in enumerate(world)]
    outstanding = in_flight(**{f"r{n}": count for n, (_, count, _) in enumerate(world)})
    excluded = {ReplicaId(f"r{n}") for n, (_, _, is_out) in enumerate(world) if is_out}
    allowed = [each for each in replicas if each.id not in excluded]
    picked = least_in_flight(replicas, outstanding, excluded=excluded, start=start)
    if not allowed:
        assert picked is None
        return
    assert picked in allowed
    least = min(outstanding.at(each.id) / each.slots_live for each in allowed)
    assert outstanding.at(picked.id) / picked.slots_live == least


def test_fleet_of_equals_is_never_more_than_one_apart() -> None:
    replicas = [replica(name) for name in "abc"]
    outstanding = Outstanding()
    for turn in range(100):
        picked = least_in_flight(replicas, outstanding, excluded=(), start=turn)
        assert picked is not None
        outstanding.add(picked.id)
        counts = [outstanding.at(each.id) for each in replicas]
        assert max(counts) - min(counts) <= 1
