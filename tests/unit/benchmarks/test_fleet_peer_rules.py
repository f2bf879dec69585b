"""The peers' rules, one choice at a time."""

from random import Random

import pytest

from fleet_simulator.flight import Flight, TraceRequest, depart
from fleet_simulator.peer_rules.prefix_memory import PrefixMemory
from fleet_simulator.peer_rules.rules import (
    BOUNDED_LOAD_HASH,
    CACHE_AWARE,
    DYNAMO,
    LEAST_EXPECTED_WAIT,
    LEAST_REQUESTS,
    LLM_D,
    LMETRIC_NEW,
    LMETRIC_QUEUED,
    PEERS,
    ROUND_ROBIN,
    SESSION_HASH,
    build_rule,
)
from fleet_simulator.peer_rules.view import ReplicaView, Rule


def flight(prompt: int = 1000, session: int = 5) -> Flight:
    request = TraceRequest(0.0, prompt, 1, session, 0, 0, (1, 2))
    return depart([request], speed_up=1.0, jitter_seconds=0.0, random=Random(1))[0]


def view(replica: int, **facts: float) -> ReplicaView:
    made = ReplicaView(replica)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def rule(name: str) -> Rule:
    return build_rule(name, Random(1), 600_000)


def test_round_robin_takes_turns() -> None:
    turns = rule(ROUND_ROBIN)
    views = [view(3), view(4), view(8)]
    assert [turns.choose(flight(), views) for _ in range(4)] == [3, 4, 8, 3]


def test_least_requests_takes_the_fewest() -> None:
    views = [view(0, in_flight=3), view(1, in_flight=1), view(2, in_flight=2)]
    assert rule(LEAST_REQUESTS).choose(flight(), views) == 1


@pytest.mark.parametrize("name", [SESSION_HASH, BOUNDED_LOAD_HASH])
def test_hash_keeps_a_session_while_others_come(name: str) -> None:
    hashed = rule(name)
    views = [view(number) for number in range(6)]
    home = hashed.choose(flight(), views)
    assert hashed.choose(flight(), [each for each in views if each.replica in (home, 0, 1)]) == home


def test_bounded_load_passes_over_a_full_home() -> None:
    bounded = rule(BOUNDED_LOAD_HASH)
    views = [view(number, in_flight=4) for number in range(4)]
    home = bounded.choose(flight(), views)
    views[home].in_flight = 40
    assert bounded.choose(flight(), views) != home


def test_cache_aware_takes_a_long_match_and_leaves_a_short_one() -> None:
    aware = rule(CACHE_AWARE)
    assert aware.choose(flight(), [view(0), view(1, cached_tokens=512, in_flight=9)]) == 1
    assert aware.choose(flight(5000), [view(0), view(1, cached_tokens=512, in_flight=9)]) == 0


def test_cache_aware_goes_by_load_when_it_is_uneven() -> None:
    views = [view(0, in_flight=10), view(1, cached_tokens=512, in_flight=90)]
    assert rule(CACHE_AWARE).choose(flight(), views) == 0


def test_dynamo_adds_what_is_computed_and_what_is_held() -> None:
    views = [view(0, queued_tokens=5000), view(1, kv_use=0.005)]
    assert rule(DYNAMO).choose(flight(), views) == 1
    views[1].kv_use = 0.5
    assert rule(DYNAMO).choose(flight(), views) == 0


def test_llm_d_weighs_prefix_queue_and_kv() -> None:
    views = [view(0, cached_tokens=512, waiting=1), view(1, waiting=1)]
    assert rule(LLM_D).choose(flight(), views) == 0
    views[0].waiting = 5
    assert rule(LLM_D).choose(flight(), views) == 1


def test_lmetric_differs_by_reading_on_a_queue() -> None:
    views = [view(0, cached_tokens=512, queued_tokens=20_000), view(1)]
    assert rule(LMETRIC_NEW).choose(flight(), views) == 0
    assert rule(LMETRIC_QUEUED).choose(flight(), views) == 1


def test_least_expected_wait_breaks_ties_by_decodes() -> None:
    views = [view(0, decoding=9), view(1, decoding=2), view(2, queued_tokens=1)]
    assert rule(LEAST_EXPECTED_WAIT).choose(flight(), views) == 1


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_chooses_among_the_eligible(name: str) -> None:
    assert rule(name).choose(flight(), [view(4)]) == 4


def test_memory_forgets_tails_first_and_keeps_its_size() -> None:
    memory = PrefixMemory(size=4, factor=1.0)
    memory.add((1, 2, 3))
    memory.add((4, 5))
    assert memory.count_hits((1, 2, 3)) == 2
    assert memory.count_hits((4, 5)) == 2


def test_memory_shrinks_after_wrong_guesses() -> None:
    memory = PrefixMemory(size=100, factor=1.0)
    for _ in range(50):
        memory.learn(expected=10, cached=0)
    memory.add(tuple(range(100)))
    assert memory.count_hits(tuple(range(100))) == 36
