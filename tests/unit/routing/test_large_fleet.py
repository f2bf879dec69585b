"""Large fleets: few replicas are weighed, and they are the right ones."""

from collections import Counter

import pytest
import xxhash
from tests.unit.routing.routing_samples import a_request, a_router, place, replicas, send

from penstock.records.replica import ReplicaId
from penstock.records.signal import PeerState
from penstock.routing import Router

SIZES = (64, 512)


def session_key(number: int) -> int:
    return xxhash.xxh3_64_intdigest(f"session-{number}".encode())


def heard(router: Router) -> Router:
    router.note_peers(PeerState.HEARD)
    return router


@pytest.mark.parametrize("size", SIZES)
def test_holder_of_the_prompt_is_always_weighed(size: int) -> None:
    router = heard(a_router(*replicas(size)))
    for number in range(0, size, 7):
        place(router, a_request("t", "s", f"u{number}"), f"r{number}", 1.0)
    router.tick(1.5)
    for number in range(0, size, 7):
        rows = router.explain(a_request("t", "s", f"u{number}", "a", "v"), 2.0)
        assert len(rows) <= 16
        cached = {row.known.replica.id: row.cached for row in rows}
        assert cached[ReplicaId(f"r{number}")] == 3000
        assert router.pick(a_request("t", "s", f"u{number}", "a"), (), 2.0).expected_cached == 3000


@pytest.mark.parametrize("size", SIZES)
def test_least_loaded_are_weighed_after_a_tick(size: int) -> None:
    router = a_router(*replicas(size))
    idle = {f"r{size - 3}", f"r{size - 2}", f"r{size - 1}"}
    for number in range(size - 3):
        others = [f"r{other}" for other in range(size) if other != number]
        send(router, a_request(f"{number}"), 1.0, *others)
    router.tick(1.01)
    picked = set()
    for number in range(3):
        picked.add(send(router, a_request(f"new {number}"), 1.01).replica.id)
    assert picked == idle


@pytest.mark.parametrize("size", SIZES)
def test_choice_after_a_pause_does_not_go_by_who_was_least_loaded_before_it(size: int) -> None:
    router = a_router(*replicas(size))
    router.tick(1.0)
    idle = f"r{size - 1}"
    for number in range(size - 1):
        others = [f"r{other}" for other in range(size) if other != number]
        send(router, a_request(f"{number}"), 1.0, *others)
    # Nothing has ticked since, as in a worker that had nothing to choose.
    assert router.pick(a_request("new"), (), 1.2).replica.id == idle


def test_router_says_once_that_it_was_asked() -> None:
    router = a_router(*replicas(2))
    assert not router.was_asked()
    router.pick(a_request("a"), (), 1.0)
    assert [router.was_asked(), router.was_asked()] == [True, False]


@pytest.mark.parametrize("size", SIZES)
def test_home_is_the_same_on_gateways_that_never_spoke(size: int) -> None:
    one, two = a_router(*replicas(size)), a_router(*reversed(replicas(size)))
    for router in (one, two):
        router.note_peers(PeerState.SILENT)
    homes: Counter[str] = Counter()
    for number in range(300):
        request = a_request("t", f"s{number}", "u", "a", "v", session=session_key(number))
        first, second = (router.pick(request, (), 1.0) for router in (one, two))
        assert first.replica.id == second.replica.id
        homes[first.replica.id] += 1
    assert len(homes) > min(size, 300) / 2, "not all sessions share a home"


@pytest.mark.parametrize("size", SIZES)
def test_last_replica_of_a_session_is_weighed(size: int) -> None:
    router = heard(a_router(*replicas(size)))
    for number in (3, size // 2, size - 1):
        place(router, a_request("x", session=number), f"r{number}", 1.0)
    router.tick(1.5)
    for number in (3, size // 2, size - 1):
        route = router.pick(a_request("else", session=number), (), 2.0)
        assert (route.replica.id, route.moved) == (f"r{number}", "")


def test_all_are_weighed_when_none_of_the_few_has_a_slot() -> None:
    router = a_router(*replicas(64, slots=1))
    picked = [send(router, a_request(f"{number}"), 1.0).replica.id for number in range(64)]
    assert len(set(picked)) == 64
    assert not router.free(a_request().model.id)


def test_new_requests_between_two_ticks_are_spread_over_the_least_loaded() -> None:
    router = a_router(*replicas(64))
    router.tick(0.9)
    counts = Counter(send(router, a_request(f"{n}"), 1.0).replica.id for n in range(40))
    assert max(counts.values()) <= 10
