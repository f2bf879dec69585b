"""The rule: costs are what their parts say, and near-ties go where gateways agree."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.routing.routing_samples import a_replica

from penstock.records.host_load import HostLoad
from penstock.records.prompt_chain import PromptChain
from penstock.records.signal import LoadClaim, PeerState
from penstock.routing.home import rank
from penstock.routing.known_replica import KnownReplica
from penstock.routing.pick import Weighing, choose, costs, terms
from penstock.routing.prefix.index import ReplicaPrefixes
from penstock.routing.route import Route

NOW = 1000.0
counts = st.integers(0, 200)
tokens = st.integers(0, 500_000)


def known(number: int, **world: Any) -> KnownReplica:
    given: dict[str, Any] = {"rate": 15_000.0, "kv_tokens": 400_000, "sent": ()}
    given |= {"claim": None, "host": None}
    given |= world
    replica = KnownReplica(
        a_replica(f"r{number}"), ReplicaPrefixes(number, 4e5), given["kv_tokens"], given["rate"]
    )
    for prompt, has_begun in given["sent"]:
        route = Route(replica.replica, PromptChain(), 0, prompt, 0)
        replica.note_sent(route, NOW - 0.5)
        if has_begun:
            replica.note_first(route, NOW - 0.4, 2.0)
    if given["claim"] is not None:
        replica.claims.hear(1, given["claim"], replica.kv_tokens, NOW - 0.1)
    if given["host"] is not None:
        replica.host_load = given["host"]
    replica.add_up()
    return replica


worlds = st.fixed_dictionaries(
    {
        "rate": st.floats(10, 1e6),
        "kv_tokens": st.integers(1024, 10**7),
        "sent": st.lists(st.tuples(st.integers(1, 50_000), st.booleans()), max_size=5),
        "claim": st.none()
        | st.builds(
            LoadClaim, st.just("r"), tokens, tokens, st.floats(0, 9), st.floats(0, 9), counts,
            counts, tokens,
        ),
        "host": st.none()
        | st.builds(
            HostLoad, tokens, st.just(0.0), st.just(NOW - 1), st.just(NOW - 1),
            st.integers(1, 200), counts, tokens,
        ),
    }
)  # fmt: skip


@settings(max_examples=100)
@given(
    st.lists(worlds, min_size=1, max_size=4),
    st.integers(1, 200_000),
    st.floats(0, 1),
    st.sampled_from([0.0, 3.0]),
)
def test_cost_is_the_sum_of_its_terms(
    described: list[dict[str, Any]], prompt: int, share: float, harm: float
) -> None:
    candidates = [known(number, **world) for number, world in enumerate(described, 1)]
    cached = [int((prompt - 1) * share)] * len(candidates)
    weighing = Weighing(prompt, 1 / 15_000, harm, NOW)
    for cost, replica in zip(costs(weighing, candidates, cached), candidates, strict=True):
        parts = terms(weighing, replica, cached[0])
        assert all(part >= 0 and math.isfinite(part) for part in parts)
        assert math.isclose(cost, sum(parts), rel_tol=1e-9)
        assert cost > 0


def cost_of(replica: KnownReplica, prompt: int = 2000, cached: int = 0) -> float:
    return costs(Weighing(prompt, 1 / 15_000, 3.0, NOW), [replica], [cached])[0]


def test_each_burden_makes_a_replica_dearer() -> None:
    idle = cost_of(known(1))
    assert cost_of(known(1), cached=1000) < idle
    assert cost_of(known(1, sent=[(20_000, False)])) > idle
    assert cost_of(known(1, sent=[(100, True)] * 3)) > idle
    assert cost_of(known(1, rate=7_500.0)) > idle
    assert cost_of(known(1, kv_tokens=2048)) > idle
    busy = LoadClaim("r1", 5000, 5000, 0.0, 0.0, 1, 0, 5000)
    assert cost_of(known(1, claim=busy)) > idle
    assert cost_of(known(1, host=HostLoad(5000, 5000, NOW, NOW, 1, 0, 5000))) > idle


def test_uncached_token_weighs_four_times_a_queued_one() -> None:
    queued = cost_of(known(1, sent=[(20_000, False)])) - cost_of(known(1))
    waiting = 20_000 - min(20_000, 0.5 * 15_000)
    assert math.isclose(queued, waiting / 15_000, rel_tol=1e-6)
    assert math.isclose(cost_of(known(1), 1001) - cost_of(known(1), 1), 4000 / 15_000)


def test_slow_replica_is_dearer_by_its_own_time_only() -> None:
    # What it does to others is counted by the mean of the fleet: routing.md, unequal replicas.
    assert math.isclose(cost_of(known(1, rate=7_500.0), 1500), (2 + 3) * 0.1)


TIED = [known(number) for number in range(1, 6)]


def chosen(**fields: Any) -> KnownReplica:
    given = {"last": None, "home": None, "session": 42, "peers": PeerState.HEARD, **fields}
    return choose(TIED, **given)


@pytest.mark.parametrize("peers", [PeerState.ALONE, PeerState.HEARD])
def test_last_replica_wins_every_near_tie(peers: PeerState) -> None:
    for each in TIED:
        assert chosen(last=each, home=TIED[0], peers=peers) is each


def test_cheapest_wins_when_there_is_no_session() -> None:
    assert chosen(session=0) is TIED[0]


def test_home_wins_when_peers_are_silent() -> None:
    assert chosen(home=TIED[3], peers=PeerState.SILENT) is TIED[3]
    # The others do not know where this gateway sent it last; they all know its home.
    assert chosen(last=TIED[1], home=TIED[3], peers=PeerState.SILENT) is TIED[3]
    assert chosen(last=TIED[1], home=known(9), peers=PeerState.SILENT) is TIED[1]
    first = max(TIED, key=lambda each: rank(42, each.replica.id))
    assert chosen(home=known(9), peers=PeerState.SILENT) is first


@given(st.integers(1, 2**64 - 1))
def test_one_of_the_two_that_all_rank_first_wins_when_peers_are_heard(session: int) -> None:
    ranked = sorted(TIED, key=lambda each: rank(session, each.replica.id), reverse=True)
    assert chosen(session=session) is ranked[0]
    busy = known(9, sent=[(10, True)])
    busy.replica = ranked[0].replica
    near = [busy if each is ranked[0] else each for each in TIED]
    assert choose(near, last=None, home=None, session=session, peers=PeerState.HEARD) is ranked[1]
