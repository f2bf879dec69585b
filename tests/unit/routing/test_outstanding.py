"""What is in flight: exact, never negative, and no trace of replicas that have none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.replica import ReplicaId
from penstock.routing.outstanding import Outstanding

A, B = ReplicaId("a"), ReplicaId("b")


def test_counts_go_up_and_down() -> None:
    outstanding = Outstanding()
    assert outstanding.at(A) == 0
    outstanding.add(A)
    outstanding.add(A)
    outstanding.add(B)
    assert (outstanding.at(A), outstanding.at(B), outstanding.total()) == (2, 1, 3)
    outstanding.remove(A)
    assert outstanding.by_replica() == {A: 1, B: 1}


def test_replica_with_nothing_in_flight_leaves_no_trace() -> None:
    outstanding = Outstanding()
    outstanding.add(A)
    outstanding.remove(A)
    assert outstanding.by_replica() == {}
    assert outstanding.total() == 0


def test_count_never_falls_below_zero() -> None:
    outstanding = Outstanding()
    with pytest.raises(KeyError):
        outstanding.remove(A)
    assert outstanding.at(A) == 0


def test_table_handed_out_is_a_copy() -> None:
    outstanding = Outstanding()
    outstanding.add(A)
    outstanding.by_replica().clear()
    assert outstanding.at(A) == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "c"]))))
def test_counts_agree_with_a_plain_model(steps: list[tuple[bool, str]]) -> None:
    outstanding = Outstanding()
    model: dict[str, int] = {}
    for is_add, name in steps:
        if is_add:
            outstanding.add(ReplicaId(name))
            model[name] = model.get(name, 0) + 1
        elif model.get(name):
            outstanding.remove(ReplicaId(name))
            model[name] -= 1
        assert all(outstanding.at(ReplicaId(each)) == count for each, count in model.items())
        assert outstanding.total() == sum(model.values())
        assert all(count > 0 for count in outstanding.by_replica().values())
