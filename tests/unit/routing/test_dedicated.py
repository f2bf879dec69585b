"""Replicas that are reserved for accounts: nobody else's requests ever go there."""

import random

import pytest
from tests.unit.routing.routing_samples import MODEL, Roster, a_replica, a_request

from penstock.errors import NoReplica
from penstock.records.account import AccountId
from penstock.records.replica import ReplicaStart
from penstock.records.request import InferenceRequest
from penstock.routing import Router, RoutingSettings

OWNERS = {"own-1": ("a",), "own-2": ("a", "b"), "shared": ()}


def request_of(account: str, number: int) -> InferenceRequest:
    return a_request(
        "t", "s", f"u{number}", session_key=number % 50 + 1, account=AccountId(account)
    )


def a_router(slots: int = 4) -> tuple[Router, Roster]:
    roster = Roster(
        *(a_replica(name, slots, accounts=accounts) for name, accounts in OWNERS.items())
    )
    router = Router(roster, RoutingSettings())
    router.keep_only(roster.all)
    return router, roster


@pytest.mark.parametrize("seed", range(3))
def test_a_dedicated_replica_serves_no_other_account_in_ten_thousand_requests(seed: int) -> None:
    router, roster = a_router()
    rng = random.Random(seed)
    served: set[tuple[str, str]] = set()
    now = 0.0
    open_routes = []
    for number in range(10_000):
        now += 0.01
        account = rng.choice(("a", "b", "c"))
        request = request_of(account, number)
        tried = [rng.choice(roster.all).id] if rng.random() < 0.1 else []
        try:
            route = router.pick(request, tried, now)
        except NoReplica:
            assert "shared" in tried or len(router.ejections) > 0
            continue
        replica = route.replica
        assert not replica.accounts or account in replica.accounts
        served.add((account, replica.id))
        router.sent(route, now)
        open_routes.append(route)
        if len(open_routes) > 8:
            router.finished(open_routes.pop(0), None, now)
        if number % 500 == 0:
            router.ejections.eject(rng.choice(roster.all).id, now)
        if number % 700 == 0:
            roster.write(*rng.sample(roster.all, 3))
            router.keep_only(roster.all)
            router.ejections.forget_all_but(frozenset())
    assert {("a", "own-1"), ("a", "own-2"), ("b", "own-2"), ("c", "shared")} <= served


def test_each_pool_has_room_by_itself() -> None:
    router, _ = a_router(slots=1)
    third = request_of("c", 1)
    assert router.pool(third) == MODEL.id
    router.sent(router.pick(third, [], 1.0), 1.0)
    assert not router.free(router.pool(third))
    own = request_of("a", 2)
    assert router.pool(own) == "m a"
    assert router.free(router.pool(own))


def test_an_account_without_any_replica_is_told_so() -> None:
    roster = Roster(a_replica("own-1", accounts=("a",)))
    router = Router(roster, RoutingSettings())
    router.keep_only(roster.all)
    with pytest.raises(NoReplica):
        router.pick(request_of("c", 1), [], 1.0)
    assert router.pick(request_of("a", 1), [], 1.0).replica.id == "own-1"


def test_requests_wait_for_a_model_at_zero_only_if_it_wakes() -> None:
    router, roster = a_router()
    pool = router.pool(request_of("c", 1))
    roster.wakeful[MODEL.id] = ReplicaStart(3.0, 10.0)
    assert router.free(pool)
    assert router.waking(pool) is None
    # Only those of other accounts are left.
    roster.write(a_replica("own-1", accounts=("a",)))
    router.keep_only(roster.all)
    refusal = router.waking(pool)
    assert not router.free(pool)
    assert refusal is not None
    assert refusal.retry_after_seconds == 7
    assert router.free(router.pool(request_of("a", 1)))
    # Nobody is kept waiting for a model that would not come.
    roster.wakeful.clear()
    assert router.free(pool)
    with pytest.raises(NoReplica):
        router.pick(request_of("c", 1), (), 0.0)
