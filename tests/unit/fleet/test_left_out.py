"""What gateway workers report of replicas that they leave out, and how it is added up."""

from penstock.fleet.workers import (
    LeftOut,
    SeenWorker,
    Worker,
    count_gateways,
    left_out,
    left_out_facts,
)
from penstock.records.replica import ReplicaId

A, B = ReplicaId("a"), ReplicaId("b")


def seen(reasons: dict[ReplicaId, str], silent_seconds: float = 1.0) -> SeenWorker:
    worker = Worker("holder", "gateway", "h", "1", {"pid": 1, **left_out_facts(reasons)})
    return SeenWorker(worker, 0.0, silent_seconds)


def test_workers_that_leave_a_replica_out_are_counted() -> None:
    workers = [seen({A: "refused"}), seen({A: "silent", B: "refused"}), seen({})]
    assert left_out(workers) == {"a": LeftOut(2, "silent"), "b": LeftOut(1, "refused")}
    assert count_gateways(workers) == 3


def test_a_worker_that_was_killed_counts_no_more() -> None:
    workers = [seen({A: "refused"}, silent_seconds=60.0), seen({})]
    assert left_out(workers) == {}
    assert count_gateways(workers) == 1


def test_a_worker_reports_a_bounded_part_of_what_it_leaves_out() -> None:
    facts = left_out_facts({ReplicaId(str(number)): "x" * 1000 for number in range(100)})
    assert len(facts) == 20
    assert {len(reason) for reason in facts.values()} == {120}
