"""The router: who may be picked, who is left out, and what is known after each step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.routing.routing_samples import (
    MODEL,
    Roster,
    a_replica,
    a_request,
    a_router,
    place,
    replicas,
    send,
    serve,
)

from penstock.errors import NoReplica
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaStart, ReplicaState
from penstock.records.usage import Usage
from penstock.routing import Route, Router, RoutingSettings

NOW = 100.0


def test_only_replicas_of_the_model_are_picked() -> None:
    router = a_router(a_replica("other", model=ModelId("n")), a_replica("mine"))
    assert {send(router, a_request(f"{n}"), NOW).replica.id for n in range(9)} == {"mine"}


def test_model_without_a_replica_is_unavailable_and_may_be_tried_again() -> None:
    with pytest.raises(NoReplica, match="m") as refused:
        a_router().pick(a_request("a"), (), NOW)
    assert refused.value.retryable
    assert refused.value.retry_after_seconds is not None


@pytest.mark.parametrize(
    ("elapsed", "last", "wait"),
    [(21.0, 49.0, 28), (60.0, 49.0, 10), (5.0, None, 10), (1.0, 600.0, 60), (48.9, 49.0, 1)],
)
def test_while_a_replica_starts_the_refusal_says_since_when_and_when_to_ask_again(
    elapsed: float, last: float | None, wait: int
) -> None:
    roster = Roster()
    roster.starts[MODEL.id] = ReplicaStart(elapsed, last)
    with pytest.raises(NoReplica, match=f"is starting, {elapsed:.0f} s so far") as refused:
        Router(roster, RoutingSettings()).pick(a_request("a"), (), NOW)
    assert refused.value.retry_after_seconds == wait
    assert ("the last start took" in refused.value.message) is (last is not None)


def test_replica_that_failed_this_request_is_not_picked_again() -> None:
    router = a_router(*replicas(2))
    place(router, a_request("a", session=1), "r0", NOW)
    for strict in (False, True):
        request = a_request("a", session=1, is_affinity_strict=strict)
        assert router.pick(request, [ReplicaId("r0")], NOW + 1).replica.id == "r1"
    with pytest.raises(NoReplica):
        router.pick(a_request("a"), [ReplicaId("r0"), ReplicaId("r1")], NOW)


def test_draining_and_starting_replicas_take_nothing() -> None:
    states = [s for s in ReplicaState if s is not ReplicaState.READY]
    router = a_router(a_replica("ready"), *(a_replica(s.value, state=s) for s in states))
    for number in range(8):
        assert send(router, a_request(f"{number}"), NOW).replica.id == "ready"


def test_ejected_replica_is_left_out_while_another_one_exists() -> None:
    router = a_router(*replicas(2, slots=1))
    place(router, a_request("a", session=1), "r0", NOW)
    router.ejections.eject(ReplicaId("r0"), NOW)
    for _ in range(5):
        assert send(router, a_request("a", session=1), NOW).replica.id == "r1"
    router.ejections.restore(ReplicaId("r0"))
    assert send(router, a_request("b"), NOW).replica.id == "r0"


def test_ejected_replica_is_tried_when_nothing_else_is_left() -> None:
    router = a_router(*replicas(2))
    router.ejections.eject(ReplicaId("r0"), NOW)
    assert router.pick(a_request("a"), [ReplicaId("r1")], NOW).replica.id == "r0"
    router.ejections.eject(ReplicaId("r1"), NOW)
    picked = {send(router, a_request(f"{n}"), NOW).replica.id for n in range(4)}
    assert picked == {"r0", "r1"}
    with pytest.raises(NoReplica):
        router.pick(a_request("a"), [ReplicaId("r0"), ReplicaId("r1")], NOW)


def test_full_replicas_are_avoided_while_another_has_a_slot() -> None:
    router = a_router(a_replica("small", 1), a_replica("large", 100))
    warm = place(router, a_request("a", "b", "c"), "small", NOW)
    assert send(router, a_request("a", "b", "c"), NOW + 1).replica.id == "small"
    for number in range(60):
        route = send(router, a_request("a", "b", "c", str(number)), NOW + 1)
        assert route.replica.id == "large", "it does not have the prompt, but a slot"
    assert warm.replica.slots_live == 1


def test_all_replicas_full_is_no_reason_to_refuse() -> None:
    router = a_router(*replicas(2, slots=1))
    assert {send(router, a_request(f"{n}"), NOW).replica.id for n in range(2)} == {"r0", "r1"}
    assert not router.free(MODEL.id)
    assert send(router, a_request("more"), NOW).replica.id in {"r0", "r1"}


def test_capacity_is_free_while_one_replica_has_a_slot() -> None:
    router = a_router(*replicas(2, slots=1))
    routes = []
    for number in range(2):
        assert router.free(MODEL.id)
        routes.append(send(router, a_request(f"{number}"), NOW))
    assert not router.free(MODEL.id)
    router.finished(routes[0], None, NOW)
    assert router.free(MODEL.id)


def test_model_without_a_replica_is_not_busy() -> None:
    # It is refused with its own word by pick, instead of being made to wait.
    assert a_router().free(MODEL.id)


def test_slots_of_an_ejected_replica_are_not_free_while_another_one_exists() -> None:
    router = a_router(*replicas(2, slots=1))
    router.ejections.eject(ReplicaId("r0"), NOW)
    send(router, a_request("a"), NOW)
    assert not router.free(MODEL.id)
    router.ejections.eject(ReplicaId("r1"), NOW)
    assert router.free(MODEL.id), "all are ejected: each may be tried"


def test_prompt_goes_where_it_is_held_and_says_how_much_is() -> None:
    router = a_router(*replicas(4))
    place(router, a_request("t", "s", "u"), "r2", NOW)
    route = router.pick(a_request("t", "s", "u", "a", "u2"), (), NOW + 1)
    assert route.replica.id == "r2"
    assert (route.prompt_tokens, route.expected_cached) == (5000, 3000)


def test_idle_fleet_is_levelled_by_what_is_under_way() -> None:
    router = a_router(*replicas(3))
    for number in range(30):
        send(router, a_request(f"{number}"), NOW)
    assert sorted(known.own.in_flight for known in router.knowledge.all()) == [10, 10, 10]


def test_explain_changes_nothing_and_names_the_choice_first() -> None:
    router = a_router(*replicas(3))
    place(router, a_request("t", "s", "u"), "r1", NOW)
    request = a_request("t", "s", "u", "a", "v", session=7)
    rows = router.explain(request, NOW + 1)
    assert rows[0].known.replica.id == router.pick(request, (), NOW + 1).replica.id == "r1"
    assert [row.cached for row in rows] == [3000, 0, 0]
    assert rows == router.explain(request, NOW + 1)
    assert router.in_flight() == 0


def test_roster_change_forgets_what_is_gone_and_nothing_else() -> None:
    roster = Roster(*replicas(3))
    router = Router(roster, RoutingSettings())
    for number in range(3):
        place(router, a_request("t", f"s{number}", "u"), f"r{number}", NOW)
    roster.write(*replicas(2))
    router.keep_only(roster.all)
    assert len(router.knowledge.index) == 6
    assert router.knowledge.find(ReplicaId("r2")) is None
    assert router.pick(a_request("t", "s2", "u"), (), NOW).expected_cached < 2000
    assert router.pick(a_request("t", "s1", "u"), (), NOW).expected_cached == 2999


names = st.sampled_from([f"r{number}" for number in range(6)])
steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "first", "finish", "fail", "roster", "eject", "tick"]),
        st.integers(0, 50),
        st.lists(names, max_size=4, unique=True),
        st.lists(names, max_size=3, unique=True),
    ),
    max_size=50,
)


@settings(max_examples=150)
@given(steps)
def test_no_order_of_events_breaks_a_rule_or_leaks(
    taken: list[tuple[str, int, list[str], list[str]]],
) -> None:
    roster = Roster(*replicas(3, slots=3))
    router = Router(roster, RoutingSettings(links_max=1024))
    under_way: list[Route] = []
    now = NOW
    for step, which, some, others in taken:
        now += which / 10
        if step == "send":
            excluded = [ReplicaId(each) for each in others]
            check_pick(router, roster, under_way, excluded, which, now)
        elif step == "roster":
            draining = ReplicaState.DRAINING
            members = [a_replica(n, 3, state=draining) for n in others if n not in some]
            roster.write(*(a_replica(n, 3) for n in some), *members)
            router.keep_only(roster.all)
        elif step == "eject" and some:
            router.ejections.eject(ReplicaId(some[0]), now)
        elif step == "tick":
            router.tick(now)
        elif under_way and step == "first":
            router.first_token(under_way[which % len(under_way)], now)
        elif under_way:
            route = under_way.pop(which % len(under_way))
            usage = Usage(which * 90, 3, which * 40) if step == "finish" else None
            router.finished(route, usage, now, is_failed=step == "fail")
        assert router.in_flight() == len(under_way)
        numbers = [known.prefixes.number for known in router.knowledge.all()]
        assert len(set(numbers)) == len(numbers)
        for known in router.knowledge.all():
            mine = [r for r in under_way if r.replica.id == known.replica.id]
            assert known.own.in_flight == len(mine)
    for route in under_way:
        router.finished(route, None, now)
    router.keep_only(())
    assert list(router.knowledge.all()) == []
    assert len(router.knowledge.index) == 0


def check_pick(
    router: Router,
    roster: Roster,
    under_way: list[Route],
    excluded: list[ReplicaId],
    which: int,
    now: float,
) -> None:
    """Send one request, if there is where to, and check that it may go there."""
    parts = [f"p{which % 4}"] * (1 + which % 5)
    request = a_request(*parts, session=which % 3, is_stream=bool(which % 2))
    left = [r.id for r in roster.ready(MODEL.id) if r.id not in excluded]
    if not left:
        with pytest.raises(NoReplica):
            router.pick(request, excluded, now)
        return
    route = router.pick(request, excluded, now)
    healthy = [each for each in left if each not in router.ejections]
    assert route.replica.id in (healthy or left)
    assert 0 <= route.expected_cached < route.prompt_tokens
    known = {k.replica.id: k for k in router.knowledge.all()}
    if route.session == 0 and known[route.replica.id].in_flight >= 3:
        assert all(known[each].in_flight >= 3 for each in healthy)
    router.sent(route, now)
    under_way.append(route)


def test_request_may_be_sent_to_a_replica_that_left_after_it_was_picked() -> None:
    roster = Roster(*replicas(2))
    router = Router(roster, RoutingSettings())
    route = router.pick(a_request("a", session=1), (), NOW)
    roster.write()
    router.keep_only(())
    router.sent(route, NOW)
    roster.write(*replicas(4))
    router.keep_only(roster.all)
    for number in range(8):
        serve(router, a_request(f"{number}"), NOW)
    router.first_token(route, NOW + 1)
    router.finished(route, Usage(500, 1, 0), NOW + 2)
    assert router.in_flight() == 0


def test_replica_with_requests_under_way_is_kept_until_they_end() -> None:
    roster = Roster(*replicas(2))
    router = Router(roster, RoutingSettings())
    route = send(router, a_request("a"), NOW, "r1")
    roster.write(a_replica("r1"), a_replica("r2"))
    router.keep_only(roster.all)
    known = router.knowledge.find(ReplicaId("r0"))
    assert known is not None
    new = router.knowledge.find(ReplicaId("r2"))
    assert new is None or new.prefixes.number != known.prefixes.number
    router.finished(route, Usage(1000, 1, 0), NOW + 1)
    router.keep_only(roster.all)
    assert router.knowledge.find(ReplicaId("r0")) is None


def test_only_a_prompt_that_was_answered_counts_as_cached_for_a_caller_who_leaves() -> None:
    router = a_router(*replicas(1))
    prompt = a_request("tools", "system", "a long question")
    for _ in range(3):
        # Sent and left before its first token: routing expects it there, no answer has shown it.
        route = send(router, prompt, NOW)
        assert router.uncached_of(route, 900) == 900
        router.finished(route, None, NOW)
    assert route.expected_cached > 0
    serve(router, prompt, NOW + 1)
    turn = a_request("tools", "system", "a long question", "an answer", "a question")
    route = send(router, turn, NOW + 2)
    # Three of five parts of the same length are known.
    assert router.uncached_of(route, 900) == pytest.approx(360, abs=2)
    assert route.cached_of(900) == pytest.approx(540, abs=2)


def test_request_without_a_chain_has_nothing_cached() -> None:
    router = a_router(*replicas(1))
    route = send(router, a_request(), NOW)
    assert router.uncached_of(route, 900) == 900
    assert route.cached_of(900) == 0
