"""What one gateway tells, the others know: prompts, sessions and what is under way."""

from collections.abc import Sequence

import pytest
from tests.unit.routing.routing_samples import (
    MODEL,
    Roster,
    a_request,
    exchange,
    place,
    replicas,
    send,
    serve,
)

from penstock.records.replica import ReplicaId
from penstock.records.signal import PeerState, Signal
from penstock.routing import Router, RoutingSettings


def gateways(count: int, fleet: int = 3) -> list[Router]:
    """Gateways that have read the roster and hear each other."""
    made = []
    for number in range(count):
        roster = Roster(*replicas(fleet))
        router = Router(roster, RoutingSettings(), None, f"host-{number}")
        router.keep_only(roster.all)
        router.note_peers(PeerState.HEARD)
        made.append(router)
    return made


def expected(routers: Sequence[Router], *parts: str, now: float) -> list[dict[str, int]]:
    """What each gateway expects in each replica's cache."""
    request = a_request(*parts)
    return [
        {row.known.replica.id: row.cached for row in router.explain(request, now)}
        for router in routers
    ]


@pytest.mark.parametrize("count", [2, 4])
def test_prompt_that_one_sent_is_known_to_all_after_one_exchange(count: int) -> None:
    routers = gateways(count)
    for turn, router in enumerate(routers):
        send(router, a_request("t", "s", f"u{turn}", session=turn + 1), 1.0)
    exchange(*routers, now=1.2)
    for turn in range(count):
        parts = ("t", "s", f"u{turn}", "a", "v")
        first, *others = expected(routers, *parts, now=1.3)
        assert max(first.values()) == 3000
        assert all(each == first for each in others)


@pytest.mark.parametrize("count", [2, 4])
def test_growing_conversation_is_known_wherever_its_turns_are_sent(count: int) -> None:
    routers = gateways(count)
    parts = ["t", "s", "u"]
    for turn in range(12):
        route = serve(routers[turn % count], a_request(*parts, session=1), float(turn))
        assert route.expected_cached == (len(parts) - 2) * 1000 if turn else True
        assert route.moved == ""
        exchange(*routers, now=turn + 0.5)
        parts += [f"a{turn}", f"u{turn}"]
        figures = expected(routers, *parts, now=turn + 0.6)
        assert all(each == figures[0] for each in figures)


def test_links_that_the_others_have_already_are_not_told_again() -> None:
    one, two = gateways(2)
    parts = ["t", "s", "u"]
    for turn in range(6):
        route = serve(one, a_request(*parts, session=1), float(turn))
        told = one.tell(turn + 0.5)
        assert len(told.sent[0].links) <= 3
        two.hear(Signal(1, turn + 1, "host-0", told.loads), told.sent, turn + 0.5)
        figures = expected((one, two), *parts, now=turn + 0.6)
        assert figures[0][route.replica.id] == figures[1][route.replica.id]
        parts += [f"a{turn}", f"u{turn}"]
    assert one.tell(9.0).sent == []


def test_session_stays_where_another_gateway_had_it() -> None:
    one, two = gateways(2)
    for name in ("r0", "r1", "r2"):
        place(one, a_request("t", "s", name, session=int(name[1]) + 1), name, 1.0)
    exchange(one, two, now=1.2)
    for name in ("r0", "r1", "r2"):
        route = two.pick(a_request("something else", session=int(name[1]) + 1), (), 1.3)
        assert route.replica.id == name


def test_load_of_others_counts_until_they_are_done_or_silent() -> None:
    one, two = gateways(2)
    route = send(one, a_request("a", size=80_000), 1.0)
    busy = route.replica.id
    exchange(one, two, now=1.1)
    known = two.knowledge.find(busy)
    assert known is not None
    assert known.in_flight == 1
    assert known.queue(1.1) > 15_000
    assert known.queue(1.6) < known.queue(1.1), "it shrinks while nothing is heard"
    assert two.pick(a_request("b"), (), 1.1).replica.id != busy
    one.first_token(route, 1.2)
    one.finished(route, None, 1.3)
    exchange(one, two, now=1.4)
    assert (known.in_flight, known.queue(1.4)) == (0, 0)
    send(one, a_request("c", size=80_000), 2.0)
    exchange(one, two, now=2.1)
    two.forget_peer(1)
    assert [each.in_flight for each in two.knowledge.all()] == [0, 0, 0]


def test_claims_of_workers_of_the_same_host_are_left_to_their_table() -> None:
    one, two = gateways(2)
    route = send(one, a_request("a"), 1.0)
    told = one.tell(1.1)
    two.hear(Signal(1, 1, "host-1", told.loads), told.sent, 1.1)
    known = two.knowledge.find(route.replica.id)
    assert known is not None
    assert known.in_flight == 0
    assert two.pick(a_request("a", "b"), (), 1.2).expected_cached == 1000, "its prompts are news"


def test_gateway_knows_what_others_sent_before_its_own_first_request() -> None:
    one, two = gateways(2)
    serve(one, a_request("t", "s", "u", session=5), 1.0)
    exchange(one, two, now=1.5)
    assert two.pick(a_request("t", "s", "u", session=5), (), 2.0).expected_cached == 2999


def test_gateway_that_is_alone_keeps_nothing_to_tell() -> None:
    (alone,) = gateways(1)
    alone.note_peers(PeerState.ALONE)
    for number in range(5):
        serve(alone, a_request(str(number)), 1.0)
    assert alone.tell(2.0) == ([], [])


def test_what_is_kept_to_be_told_is_bounded() -> None:
    one, _ = gateways(2)
    for number in range(2500):
        one.finished(send(one, a_request(str(number)), 1.0), None, 1.0)
    assert len(one.tell(2.0).sent) == 2000


def test_expected_cache_is_a_number_of_whole_blocks() -> None:
    from penstock.records.signal import EngineClaim

    (router,) = gateways(1, fleet=1)
    serve(router, a_request("a", size=1000), 1.0)
    before = router.pick(a_request("a", size=1000), (), 2.0).expected_cached
    assert before % 128
    claim = EngineClaim("r0", is_healthy=True, kv_tokens=100_000, block_tokens=128)
    router.hear(Signal(7, 1, "keeper", engines=[claim]), (), 2.0)
    after = router.pick(a_request("a", size=1000), (), 2.0).expected_cached
    assert after == before - before % 128
    assert after > 0


def test_keepers_word_on_cache_rate_and_own_work_is_taken() -> None:
    from penstock.records.signal import EngineClaim

    one, _ = gateways(2)
    claim = EngineClaim(
        "r0", is_healthy=False, kv_tokens=1_200_000, prefill_rate=30_000.0, own_requests=5
    )
    one.hear(Signal(7, 1, "keeper", engines=[claim]), (), 1.0)
    known = one.knowledge.find(ReplicaId("r0"))
    assert known is not None
    assert (known.kv_tokens, known.prefixes.capacity) == (1_200_000, 1_200_000)
    assert known.seconds_per_token == 1 / 30_000
    assert known.in_flight == 5
    assert one.gossip.suspects == {"r0"}
    one.forget_peer(7)
    assert known.in_flight == 0
    assert known.kv_tokens == 1_200_000
    assert one.free(MODEL.id)
