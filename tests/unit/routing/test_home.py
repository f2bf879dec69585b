"""A session's home: the same for all, level, and hardly moved when replicas come or go."""

from collections import Counter

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.replica import ReplicaId
from penstock.routing.home import HomeRing, rank

NAMES = [ReplicaId(f"r{number}") for number in range(8)]
SESSIONS = [xxhash.xxh3_64_intdigest(str(number).encode()) for number in range(4000)]


@given(st.permutations(NAMES), st.integers(0, 2**64 - 1))
def test_home_does_not_depend_on_the_order_in_which_replicas_are_known(
    names: list[ReplicaId], session: int
) -> None:
    assert HomeRing(names).of(session) == HomeRing(NAMES).of(session)


def test_homes_are_spread_over_all_replicas() -> None:
    for count in (2, 8, 64):
        names = [ReplicaId(f"r{number}") for number in range(count)]
        ring = HomeRing(names)
        counts = Counter(ring.of(session) for session in SESSIONS)
        assert set(counts) == set(names)
        assert max(counts.values()) < 1.8 * len(SESSIONS) / count


def test_only_the_sessions_of_a_replica_that_goes_find_another_home() -> None:
    before, after = HomeRing(NAMES), HomeRing(NAMES[:-1])
    for session in SESSIONS:
        home = before.of(session)
        if home != NAMES[-1]:
            assert after.of(session) == home


def test_nobody_is_home_where_there_is_no_replica() -> None:
    assert HomeRing(()).of(1) is None


def test_rank_differs_by_session_and_by_replica() -> None:
    assert len({rank(session, name) for session in SESSIONS[:100] for name in NAMES}) == 800
