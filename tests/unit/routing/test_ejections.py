"""Ejected replicas: left out until a probe restores them, probed when due and not more often."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.replica import ReplicaId
from penstock.routing.ejections import Ejections

A, B = ReplicaId("a"), ReplicaId("b")


def ejections(first_wait: float = 1.0, interval: float = 2.0) -> Ejections:
    return Ejections(first_wait_seconds=first_wait, interval_seconds=interval)


def test_ejected_replica_stays_out_until_restored() -> None:
    out = ejections()
    assert not out
    out.eject(A, 100.0)
    assert A in out
    assert B not in out
    out.due(10_000.0)
    assert A in out, "time alone brings nothing back"
    out.restore(A)
    assert A not in out
    assert not out


def test_first_probe_is_due_after_the_first_wait_and_then_every_interval() -> None:
    out = ejections()
    out.eject(A, 100.0)
    assert out.due(100.9) == []
    assert out.due(101.0) == [A]
    assert out.due(101.0) == []
    assert out.due(102.9) == []
    assert out.due(103.0) == [A]
    assert out.due(105.0) == [A]


def test_late_look_makes_one_probe_due_and_not_all_that_were_missed() -> None:
    out = ejections()
    out.eject(A, 100.0)
    assert out.due(200.0) == [A]
    assert out.due(201.9) == []


def test_ejecting_again_is_no_news_and_does_not_put_the_probe_off() -> None:
    out = ejections()
    assert out.eject(A, 100.0)
    assert not out.eject(A, 100.9)
    assert out.due(101.0) == [A]
    assert len(out) == 1


def test_restored_replica_may_be_ejected_anew() -> None:
    out = ejections()
    out.eject(A, 100.0)
    out.restore(A)
    assert out.eject(A, 200.0)
    assert out.due(200.5) == []
    assert out.due(201.0) == [A]


def test_restoring_one_that_was_never_out_is_harmless() -> None:
    out = ejections()
    out.restore(A)
    assert len(out) == 0


def test_replicas_that_left_the_roster_are_forgotten() -> None:
    out = ejections()
    out.eject(A, 100.0)
    out.eject(B, 100.0)
    out.forget_all_but(frozenset({B}))
    assert A not in out
    assert out.due(101.0) == [B]
    out.forget_all_but(frozenset())
    assert not out


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 3.0), max_size=60))
def test_probes_of_one_replica_are_at_least_an_interval_apart(looks: list[float]) -> None:
    out = ejections(first_wait=0.5, interval=1.0)
    out.eject(A, 0.0)
    now, probes = 0.0, [-0.5]
    for pause in looks:
        now += pause
        if out.due(now):
            assert now - probes[-1] >= 1.0 - 1e-9
            probes.append(now)
        else:
            assert now - probes[-1] < 1.0


def test_the_reason_is_kept_while_the_replica_is_out() -> None:
    out = ejections()
    out.eject(A, 100.0, "refused")
    out.eject(A, 100.5, "silent")
    assert out.reasons == {A: "refused"}
    out.restore(A)
    assert out.reasons == {}
    out.eject(A, 200.0, "silent")
    out.forget_all_but(frozenset())
    assert out.reasons == {}
