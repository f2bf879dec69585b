"""Sessions: they stay while that costs little, and a move says why."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.routing.routing_samples import (
    Roster,
    a_replica,
    a_request,
    a_router,
    place,
    replicas,
    send,
    serve,
)

from penstock.records.host_load import HostLoad, HostTable
from penstock.records.replica import ReplicaId, ReplicaState
from penstock.records.signal import PeerState
from penstock.routing import Router, RoutingSettings
from penstock.routing.sessions import Sessions

NOW = 100.0
TURN = ("t", "s", "u", "a", "v")


def turn(*parts: str, **fields: Any) -> Any:
    return a_request(*(parts or TURN), session=1, **fields)


def burden(router: Router, replica: str, count: int, now: float, size: int = 4000) -> None:
    """So many requests without a first token."""
    others = [r.id for r in router._roster.ready(a_request().model.id) if r.id != replica]
    for number in range(count):
        send(router, a_request(f"burden {replica} {number} {now}", size=size), now, *others)


@pytest.mark.parametrize("state", [PeerState.ALONE, PeerState.HEARD])
def test_near_tie_stays_with_the_last_replica(state: PeerState) -> None:
    for name in ("r0", "r1", "r2", "r3"):
        router = a_router(*replicas(4))
        router.note_peers(state)
        place(router, turn("x"), name, NOW)
        # Nothing of this prompt is held anywhere: all are equal but for where the session was.
        route = router.pick(turn("other"), (), NOW + 1)
        assert (route.replica.id, route.moved) == (name, "")


def test_short_prompt_stays_even_when_its_replica_is_busy() -> None:
    router = a_router(*replicas(2))
    place(router, turn("x", size=40), "r1", NOW)
    burden(router, "r1", 20, NOW + 1)
    assert router.pick(turn("y", size=40), (), NOW + 1).replica.id == "r1"
    route = router.pick(turn("y", size=4000), (), NOW + 1)
    assert (route.replica.id, route.moved) == ("r0", "load")


def test_short_prompt_leaves_a_full_replica() -> None:
    router = a_router(a_replica("r0", 100), a_replica("r1", 3))
    place(router, turn("x", size=40), "r1", NOW)
    burden(router, "r1", 3, NOW + 1)
    assert router.pick(turn("y", size=40), (), NOW + 1).replica.id == "r0"


def test_session_stays_with_its_cache_under_some_load_and_leaves_under_much() -> None:
    router = a_router(*replicas(2))
    place(router, turn(), "r1", NOW)
    burden(router, "r1", 5, NOW + 1)
    assert router.pick(turn(*TURN, "b", "w"), (), NOW + 1).replica.id == "r1"
    burden(router, "r1", 40, NOW + 1)
    route = router.pick(turn(*TURN, "b", "w"), (), NOW + 1)
    assert (route.replica.id, route.moved) == ("r0", "load")
    assert router.moves == {"load": 0, "drain": 0, "lost": 0}, "it has not been sent"
    router.sent(route, NOW + 1)
    assert router.moves == {"load": 1, "drain": 0, "lost": 0}


def test_strict_session_stays_whatever_it_costs() -> None:
    router = a_router(*replicas(2, slots=30))
    place(router, turn(), "r1", NOW)
    burden(router, "r1", 60, NOW + 1)
    route = router.pick(turn(is_affinity_strict=True), (), NOW + 1)
    assert (route.replica.id, route.moved) == ("r1", "")


@pytest.mark.parametrize("is_strict", [False, True])
def test_session_moves_off_a_draining_replica_and_says_so(*, is_strict: bool) -> None:
    roster = Roster(*replicas(2))
    router = Router(roster, RoutingSettings())
    place(router, turn(), "r1", NOW)
    roster.write(a_replica("r0"), a_replica("r1", state=ReplicaState.DRAINING))
    router.keep_only(roster.all)
    route = router.pick(turn(is_affinity_strict=is_strict), (), NOW + 1)
    assert (route.replica.id, route.moved) == ("r0", "drain")


@pytest.mark.parametrize("is_strict", [False, True])
def test_session_whose_replica_is_gone_is_lost(*, is_strict: bool) -> None:
    roster = Roster(*replicas(2))
    router = Router(roster, RoutingSettings())
    place(router, turn(), "r1", NOW)
    roster.write(a_replica("r0"))
    router.keep_only(roster.all)
    route = router.pick(turn(is_affinity_strict=is_strict), (), NOW + 1)
    assert (route.replica.id, route.moved) == ("r0", "lost")
    router.sent(route, NOW + 1)
    assert router.pick(turn(), (), NOW + 2).moved == "", "it has moved once"


def test_ejected_replica_loses_its_sessions() -> None:
    router = a_router(*replicas(2))
    place(router, turn(), "r1", NOW)
    router.ejections.eject(ReplicaId("r1"), NOW)
    assert router.pick(turn(), (), NOW + 1).moved == "lost"


def test_replica_that_failed_a_session_is_avoided_by_it_for_half_a_minute() -> None:
    router = a_router(*replicas(2))
    place(router, turn(), "r1", NOW)
    route = send(router, turn(), NOW + 1)
    assert route.replica.id == "r1"
    router.finished(route, None, NOW + 2, is_failed=True)
    for after in (0.0, 10.0, 29.9):
        picked = router.pick(turn(), (), NOW + 2 + after)
        assert (picked.replica.id, picked.moved) == ("r0", "lost")
    assert router.pick(turn(), (), NOW + 32.1).replica.id == "r1"
    other = a_request(*TURN, session=2)
    assert router.pick(other, (), NOW + 3).replica.id == "r1", "other sessions do not avoid it"


def test_replica_that_failed_a_session_is_tried_when_nothing_else_is_left() -> None:
    router = a_router(*replicas(2))
    place(router, turn(), "r1", NOW)
    route = send(router, turn(), NOW + 1)
    router.finished(route, None, NOW + 2, is_failed=True)
    assert router.pick(turn(), [ReplicaId("r0")], NOW + 3).replica.id == "r1"


def test_answer_ends_the_avoidance() -> None:
    router = a_router(*replicas(2))
    place(router, turn(), "r1", NOW)
    router.finished(send(router, turn(), NOW + 1), None, NOW + 2, is_failed=True)
    serve(router, turn(), NOW + 3)
    burden(router, "r0", 40, NOW + 4)
    assert router.pick(turn(), (), NOW + 4).replica.id == "r1"


def test_request_without_a_session_never_moves() -> None:
    router = a_router(*replicas(2))
    place(router, a_request(*TURN), "r1", NOW)
    burden(router, "r1", 60, NOW)
    route = router.pick(a_request(*TURN), (), NOW)
    assert (route.replica.id, route.moved, route.cache_break) == ("r0", "", "")


def test_load_of_the_hosts_other_workers_is_seen_at_the_next_decision() -> None:
    class Table(HostTable):
        load = HostLoad()
        written: dict[str, HostLoad]

        def __init__(self) -> None:
            self.written = {}

        def write(self, replica: ReplicaId, load: HostLoad) -> None:
            self.written[replica] = load

        def others(self, replica: ReplicaId) -> HostLoad | None:
            return self.load if replica == "r0" else None

    table = Table()
    router = Router(Roster(*replicas(2, slots=8)), RoutingSettings(), table)
    route = send(router, a_request("a"), NOW)
    assert route.replica.id == "r0"
    assert table.written["r0"].in_flight == 1
    router.finished(route, None, NOW)
    assert table.written["r0"] == HostLoad(progress_at=NOW)
    table.load = HostLoad(50_000, 50_000, NOW, NOW, 1, 0, 50_000)
    assert router.pick(a_request("b"), (), NOW).replica.id == "r1"
    table.load = HostLoad(in_flight=8, decoding=8)
    assert router.pick(a_request("b"), (), NOW).replica.id == "r1"
    send(router, a_request("c"), NOW, "r0")
    for number in range(7):
        assert router.free(a_request().model.id)
        assert send(router, a_request(str(number)), NOW).replica.id == "r1"
    assert not router.free(a_request().model.id)


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from("ab")), max_size=60))
def test_sessions_used_longest_ago_are_forgotten_first(used: list[tuple[int, str]]) -> None:
    sessions = Sessions(4)
    order: dict[int, str] = {}
    for key, replica in used:
        sessions.note(key, ReplicaId(replica), (key, key + 1), 0, key)
        order.pop(key, None)
        order[key] = replica
        order = dict(list(order.items())[-4:])
        assert len(sessions) == len(order)
        for kept, expected in order.items():
            session = sessions.find(kept)
            assert session is not None
            assert session.replica == expected


def test_sessions_do_not_share_what_they_remember() -> None:
    sessions = Sessions(4)
    for key in (1, 12):
        sessions.note(key, ReplicaId("a"), (), 0, 0)
    sessions.note(1, ReplicaId("b"), (1, 2), 0, 5)
    other = sessions.find(12)
    assert other is not None
    assert (other.replica, other.prompts) == ("a", [])


def test_failure_is_forgotten_with_its_session() -> None:
    sessions = Sessions(2)
    for key in (1, 2):
        sessions.note(key, ReplicaId("a"), (), 0, 0)
        sessions.note_failure(key, ReplicaId("a"), NOW)
    sessions.forget_failure(2)
    sessions.note(3, ReplicaId("a"), (), 0, 0)
    assert sessions.find(1) is None
    sessions.note(1, ReplicaId("a"), (), 0, 0)
    sessions.forget_failure(1)
    assert [session.failed for key in (1, 3) if (session := sessions.find(key))] == [None, None]
    assert not sessions._failed
