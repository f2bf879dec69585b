"""An explanation says what `pick` would do, by which part of the rule, and changes nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.routing.routing_samples import a_request, a_router, place, replicas, send

from penstock.errors import NoReplica
from penstock.records.signal import PeerState
from penstock.routing import Router, RoutingSettings
from penstock.serving.explanation import Explainer
from penstock.wire.resources.routing import RoutingAnswer

FIRST = ("tools", "system", "hello")
SECOND = (*FIRST, "hi", "and now?")
NOW = 100.0


def explain(
    router: Router, *parts: str, peers: PeerState = PeerState.ALONE, **fields: Any
) -> RoutingAnswer:
    router.note_peers(peers)
    request = a_request(*parts, **fields)
    return Explainer(router, RoutingSettings(), lambda: peers).explain(
        request, NOW, is_absolute=True
    )


def test_cache_makes_a_replica_the_cheapest() -> None:
    router = a_router(*replicas(3))
    place(router, a_request(*FIRST), "r1", 1.0)
    answer = explain(router, *SECOND)
    assert (answer.replica, answer.why) == ("r1", "least")
    best, *others = answer.candidates
    assert best.cached_tokens > 0
    assert [each.cached_tokens for each in others] == [0, 0]
    assert [each.is_near for each in answer.candidates] == [True, False, False]


def test_parts_add_up_to_the_cost_and_the_cheapest_stands_first() -> None:
    router = a_router(*replicas(4))
    for number in range(5):
        send(router, a_request("t", "s", f"question {number}"), NOW)
    answer = explain(router, *FIRST)
    costs = [each.cost_seconds or 0.0 for each in answer.candidates]
    assert costs == sorted(costs)
    for each in answer.candidates:
        parts = (each.wait_seconds, each.own_seconds, each.harm_seconds, each.full_seconds)
        assert sum(part or 0.0 for part in parts) == pytest.approx(each.cost_seconds, abs=1e-5)
    assert sum(each.in_flight or 0 for each in answer.candidates) == 5


def test_ratios_say_no_more_than_how_replicas_compare() -> None:
    router = a_router(*replicas(3))
    for number, others in enumerate([("r1", "r2")] * 3 + [("r0", "r2")]):
        send(router, a_request("t", "s", f"question {number}"), NOW, *others)
    explainer = Explainer(router, RoutingSettings(), lambda: PeerState.ALONE)
    answer = explainer.explain(a_request(*FIRST), NOW, is_absolute=False)
    ratios = {each.replica: each.load_ratio for each in answer.candidates}
    assert ratios == {"r0": 1.0, "r1": 0.33, "r2": 0.0}
    costs = [each.cost_ratio for each in answer.candidates]
    assert costs == sorted(costs)
    assert costs[0] == 1.0
    hidden = ("wait", "own", "harm", "full", "cost")
    for each in answer.candidates:
        assert [getattr(each, f"{name}_seconds") for name in hidden] == [None] * 5
        assert each.in_flight is None


def test_session_stays_where_it_was_last_among_near_ties() -> None:
    router = a_router(*replicas(3))
    # All have shown the same speed: they are equals to a prompt that none of them has.
    for key, name in ((5, "r0"), (6, "r1"), (7, "r2")):
        place(router, a_request(*FIRST, session=key), name, float(key))
    answer = explain(router, "other", "prompt", "altogether", session=7)
    assert (answer.replica, answer.why, answer.last_replica) == ("r2", "last", "r2")


def test_short_prompt_and_strict_account_stay_whatever_it_costs() -> None:
    router = a_router(*replicas(2))
    place(router, a_request(*FIRST, session=7), "r1", 1.0)
    for number in range(20):
        send(router, a_request("x", "y", f"{number}"), NOW, "r0")
    short = explain(router, "a", "few", "words", session=7, size=4)
    assert (short.replica, short.why) == ("r1", "short")
    strict = explain(router, "new", "prompt", "here", session=7, is_affinity_strict=True)
    assert (strict.replica, strict.why) == ("r1", "strict")
    moved = explain(router, "new", "prompt", "here", session=7)
    assert (moved.replica, moved.why) == ("r0", "least")


def test_near_ties_of_a_new_session_are_ranked_where_others_are_heard() -> None:
    router = a_router(*replicas(4))
    answer = explain(router, *FIRST, session=7, peers=PeerState.HEARD)
    assert answer.why == "rank"
    assert answer.peers == "heard"


def test_home_or_rank_decides_in_silence() -> None:
    whys = {
        explain(a_router(*replicas(4)), *FIRST, session=key, peers=PeerState.SILENT).why
        for key in range(1, 40)
    }
    assert whys == {"home", "rank"}


def test_what_is_left_is_taken_and_called_so() -> None:
    router = a_router(*replicas(2))
    for name in ("r0", "r1"):
        router.ejections.eject(replicas(2)[int(name[1])].id, NOW)
    answer = explain(router, *FIRST)
    assert (answer.why, answer.candidates) == ("left", [])


def test_without_a_replica_there_is_nothing_to_explain() -> None:
    with pytest.raises(NoReplica):
        explain(a_router(), *FIRST)


def test_break_and_move_are_foretold() -> None:
    router = a_router(*replicas(2))
    place(router, a_request(*SECOND, session=7), "r0", 1.0)
    answer = explain(router, "tools", "system", "hello", "changed", "and now?", "x", session=7)
    assert answer.cache_break == "message 2"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12),
    st.sampled_from(PeerState),
    st.integers(0, 5),
)
def test_explaining_agrees_with_picking_and_changes_nothing(
    sent: list[tuple[int, int]], peers: PeerState, session: int
) -> None:
    router = a_router(*replicas(4))
    for prompt, key in sent:
        send(router, a_request("t", "s", f"p{prompt}", session=key), NOW)
    request = a_request("t", "s", "p1", "a", "b", session=session)
    router.note_peers(peers)
    explainer = Explainer(router, RoutingSettings(), lambda: peers)
    before = router.pick(request, (), NOW).replica.id
    first = explainer.explain(request, NOW, is_absolute=True)
    assert first == explainer.explain(request, NOW, is_absolute=True)
    assert first.replica == before == router.pick(request, (), NOW).replica.id
    assert router.in_flight() == len(sent)
    chosen = next(each for each in first.candidates if each.replica == first.replica)
    assert chosen.is_near or first.why in {"strict", "short"}
