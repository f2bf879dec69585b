"""Flex work weighs in the choice of a replica, but takes no live slot; jobs run where they are."""

import pytest
from tests.unit.routing.routing_samples import MODEL, Roster, a_request, replicas

from penstock.errors import NoReplica
from penstock.records.replica import ReplicaId
from penstock.records.signal import EngineClaim, PeerState, Signal
from penstock.routing import Router, RoutingSettings


def told_by_a_keeper(router: Router, replica: str, jobs: int, tokens: int = 1000) -> None:
    claim = EngineClaim(
        replica, is_healthy=True, running=jobs, kv_tokens=100_000,
        own_requests=jobs, own_tokens=tokens * jobs,
    )  # fmt: skip
    router.hear(Signal(9, 1, "keeper", engines=[claim]), [], 1.0)


def a_router(count: int, slots: int) -> Router:
    roster = Roster(*replicas(count, slots))
    router = Router(roster, RoutingSettings())
    router.keep_only(roster.all)
    return router


def test_a_replica_full_of_flex_work_is_not_busy() -> None:
    router = a_router(1, slots=4)
    told_by_a_keeper(router, "r0", 4)
    assert router.free(MODEL.id)
    known = router.knowledge.find(ReplicaId("r0"))
    assert known is not None
    assert known.in_flight == 4, "it is load all the same"


def test_live_requests_make_it_busy_whatever_flex_work_it_has() -> None:
    router = a_router(1, slots=2)
    told_by_a_keeper(router, "r0", 2)
    for _ in range(2):
        assert router.free(MODEL.id)
        router.sent(router.pick(a_request("t", "s", "u"), [], 1.0), 1.0)
    assert not router.free(MODEL.id)


def test_flex_work_breaks_no_tie() -> None:
    """It makes room; sessions that were moved for it would lose their cache."""
    router = a_router(2, slots=8)
    asked = [a_request("t", "s", f"u{n}", session_key=n + 1) for n in range(16)]
    without = [router.pick(request, [], 1.0).replica.id for request in asked]
    told_by_a_keeper(router, "r0", 8)
    assert [router.pick(request, [], 1.0).replica.id for request in asked] == without
    assert set(without) == {"r0", "r1"}


def test_flex_work_that_fills_the_kv_cache_sends_requests_elsewhere() -> None:
    router = a_router(2, slots=8)
    told_by_a_keeper(router, "r0", 8, tokens=12_400)
    picked = {router.pick(a_request("t", "s", f"u{n}"), [], 1.0).replica.id for n in range(16)}
    assert picked == {"r1"}


def test_flex_work_is_not_taken_for_requests_of_gateways_that_are_silent() -> None:
    router = a_router(1, slots=8)
    router.note_peers(PeerState.SILENT)
    told_by_a_keeper(router, "r0", 5)
    known = router.knowledge.find(ReplicaId("r0"))
    assert known is not None
    assert known.in_flight == 5
    assert known.live_in_flight == 0
    assert known.others_decoding == 0


def test_a_job_runs_where_it_was_pulled_for_or_not_at_all() -> None:
    router = a_router(3, slots=8)
    request = a_request("t", "s", "u", only_replica="r1")
    router.ejections.eject(ReplicaId("r1"), 0.0)
    assert {router.pick(request, [], 1.0).replica.id for _ in range(9)} == {"r1"}
    with pytest.raises(NoReplica):
        router.pick(request, [ReplicaId("r1")], 1.0)
    with pytest.raises(NoReplica):
        router.pick(a_request("t", "s", "u", only_replica="gone"), [], 1.0)
