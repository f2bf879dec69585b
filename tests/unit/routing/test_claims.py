"""What others claim: the sum of each one's latest word, and no more than can be."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.signal import LoadClaim
from penstock.routing.peer_loads import PeerLoads

CAPACITY = 10_000
counts = st.integers(0, 2**40) | st.just(0)
claims = st.builds(
    LoadClaim,
    replica=st.just("a"),
    outstanding=counts | st.integers(0, 5000),
    head_tokens=counts,
    head_age=st.floats(0, 1e6),
    progress_age=st.floats(0, 1e6),
    in_flight=counts,
    decoding=counts,
    prompt_tokens=counts,
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 4), claims | st.none(), st.floats(0, 5)), max_size=40))
def test_sums_are_those_of_the_latest_claims(
    said: list[tuple[int, LoadClaim | None, float]],
) -> None:
    heard = PeerLoads()
    latest: dict[int, tuple[LoadClaim, float]] = {}
    now = 1e5
    for sender, claim, pause in said:
        now += pause
        if claim is None:
            heard.forget(sender)
            latest.pop(sender, None)
        else:
            heard.hear(sender, claim, CAPACITY, now)
            latest[sender] = claim, now
        believed = [
            (min(one.outstanding, CAPACITY) if one.in_flight else 0, at)
            for one, at in latest.values()
        ]
        assert heard.outstanding == sum(tokens for tokens, _ in believed)
        assert heard.prompt_tokens == sum(
            min(one.prompt_tokens, CAPACITY) for one, _ in latest.values()
        )
        assert 0 <= heard.decoding <= heard.in_flight <= CAPACITY * len(latest)
        assert 0 <= heard.head_tokens <= heard.outstanding
        assert set(heard.senders()) == set(latest)
        if heard.outstanding:
            mean = sum(tokens * at for tokens, at in believed) / heard.outstanding
            assert math.isclose(heard.at, mean, abs_tol=1e-3)
        assert heard.progress_at <= now
    for sender in list(latest):
        heard.forget(sender)
    left = (heard.outstanding, heard.in_flight, heard.decoding, heard.prompt_tokens)
    assert left == (0, 0, 0, 0)
    assert (heard.head_tokens, heard.at) == (0, 0.0)


def test_forgetting_one_who_said_nothing_is_harmless() -> None:
    heard = PeerLoads()
    heard.forget(7)
    assert heard.senders() == ()
