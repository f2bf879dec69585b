"""What is under way at one replica: exact, never negative, released by every end."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.routing.routing_samples import a_replica

from penstock.records.host_load import HostLoad
from penstock.records.prompt_chain import PromptChain
from penstock.records.signal import LoadClaim
from penstock.routing.known_replica import KnownReplica
from penstock.routing.outstanding import Outstanding
from penstock.routing.prefix.index import ReplicaPrefixes
from penstock.routing.route import Route

RATE = 10_000.0


def a_route(prompt: int = 1000, cached: int = 0, *, is_stream: bool = True) -> Route:
    return Route(a_replica("a"), PromptChain(), 0, prompt, cached, is_stream=is_stream)


def known(kv_tokens: int = 400_000) -> KnownReplica:
    return KnownReplica(a_replica("a"), ReplicaPrefixes(1, kv_tokens), kv_tokens, RATE)


numbers = st.floats(0, 1e6)
steps = st.lists(
    st.tuples(
        st.sampled_from(["sent", "first", "finished", "weigh", "claim", "host", "forget"]),
        st.integers(0, 100),
        st.integers(1, 50_000),
        st.booleans(),
        st.floats(0, 30),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(steps)
def test_counts_agree_with_a_plain_model_after_any_order(
    taken: list[tuple[str, int, int, bool, float]],
) -> None:
    replica = known()
    own = replica.own
    open_routes: list[Route] = []
    now = 100.0
    for step, which, tokens, is_stream, pause in taken:
        now += pause
        if step == "sent":
            route = a_route(tokens, min(which, tokens - 1), is_stream=is_stream)
            replica.note_sent(route, now)
            open_routes.append(route)
        elif step == "first" and open_routes:
            replica.note_first(open_routes[which % len(open_routes)], now, 2.0)
        elif step == "finished" and open_routes:
            own.remove(open_routes.pop(which % len(open_routes)), now)
        elif step == "claim":
            claim = LoadClaim("a", tokens, min(tokens, which), pause, pause, which, which, tokens)
            replica.claims.hear(which % 3, claim, replica.kv_tokens, now)
            replica.add_up()
        elif step == "host":
            head_at = now - pause if which % 2 else 0.0
            replica.host_load = HostLoad(tokens, tokens / 2, head_at, now - pause, which)
            replica.add_up()
        elif step == "forget":
            replica.claims.forget(which % 3)
            replica.add_up()
        queue = replica.queue(now)
        assert math.isfinite(queue)
        assert queue >= 0
        waiting = [route for route in open_routes if route.is_waiting]
        assert own.in_flight == len(open_routes)
        assert own.decoding == len(open_routes) - len(waiting)
        assert own.queued_tokens == sum(route.uncached for route in waiting)
        assert own.unstreamed == sum(not route.is_stream for route in waiting)
        assert own.prompt_tokens == sum(route.prompt_tokens for route in open_routes)
        assert bool(own.head_tokens) == bool(waiting)
        assert 0 < replica.seconds_per_token < math.inf
    for route in open_routes:
        own.remove(route, now)
    counts = (own.in_flight, own.decoding, own.queued_tokens, own.prompt_tokens, own.unstreamed)
    assert counts == (0, 0, 0, 0, 0)


def test_first_token_counts_once() -> None:
    outstanding = Outstanding()
    route = a_route()
    outstanding.add(route, 1.0)
    for _ in range(3):
        outstanding.note_first(route, 2.0)
    assert (outstanding.in_flight, outstanding.decoding) == (1, 1)


def test_queue_shrinks_as_the_head_is_worked_on_and_no_further() -> None:
    replica = known()
    first, second = a_route(5_000), a_route(3_000)
    replica.note_sent(first, 100.0)
    replica.note_sent(second, 100.0)
    assert replica.queue(100.0) == 8_000
    assert math.isclose(replica.queue(100.25), 5_500)
    assert replica.queue(105.0) == 3_000, "more than the head cannot be done unseen"
    replica.note_first(first, 105.0, 2.0)
    assert replica.queue(105.0) == 3_000


def test_oldest_request_without_a_first_token_is_the_head() -> None:
    outstanding = Outstanding()
    routes = [a_route(1_000 * (n + 1)) for n in range(3)]
    for at, route in enumerate(routes):
        outstanding.add(route, 10.0 + at)
        route.sent_at = 10.0 + at
    outstanding.note_first(routes[0], 20.0)
    assert (outstanding.head_tokens, outstanding.head_at) == (2_000, 11.0)
    outstanding.note_first(routes[2], 21.0)
    assert outstanding.head_tokens == 2_000


def test_unstreamed_request_counts_as_decoding_when_its_prefill_must_be_over() -> None:
    replica = known()
    route = a_route(10_000, is_stream=False)
    replica.note_sent(route, 100.0)
    assert replica.queue(100.1) > 0
    assert replica.queue(102.0) == 0
    assert (replica.own.in_flight, replica.own.decoding) == (1, 1)
    replica.own.remove(route, 110.0)
    assert (replica.own.in_flight, replica.own.decoding) == (0, 0)


def test_request_that_is_given_up_in_the_queue_says_nothing_of_the_head() -> None:
    replica = known()
    head, queued = a_route(20_000), a_route(5_000)
    replica.note_sent(head, 100.0)
    replica.note_sent(queued, 100.0)
    replica.own.remove(queued, 101.0)
    assert math.isclose(replica.queue(101.0), 10_000), "half of the head is done"
    replica.note_sent(a_route(5_000), 101.0)
    replica.own.remove(head, 101.5)
    assert math.isclose(replica.queue(101.5), 5_000), "the next one begins only now"


def test_what_waits_behind_an_unstreamed_request_begins_when_that_must_be_over() -> None:
    replica = known()
    replica.note_sent(a_route(10_000, is_stream=False), 100.0)
    replica.note_sent(a_route(20_000), 100.0)
    assert math.isclose(replica.queue(101.6), 20_000 - 6_000)


def test_rate_is_learned_from_first_tokens() -> None:
    replica = known()
    now = 100.0
    for _ in range(300):
        route = a_route(4_000)
        replica.note_sent(route, now)
        replica.note_first(route, now + 1.0, 2.0)
        replica.own.remove(route, now + 2.0)
        now += 3.0
    assert math.isclose(1 / replica.seconds_per_token, 4_000, rel_tol=0.02)


def test_rate_is_not_learned_from_answers_that_come_whole() -> None:
    # When one of these is seen, its tokens have been decoded too: that says nothing of prefill.
    replica = known()
    now = 100.0
    for _ in range(50):
        route = a_route(4_000, is_stream=False)
        replica.note_sent(route, now)
        replica.note_first(route, now + 20.0, 2.0)
        replica.own.remove(route, now + 20.0)
        now += 30.0
    assert 1 / replica.seconds_per_token == RATE


def test_rate_that_a_keeper_measured_is_believed_over_our_own() -> None:
    replica = known()
    replica.tell_rate(50_000)
    route = a_route(4_000)
    replica.note_sent(route, 100.0)
    replica.note_first(route, 120.0, 2.0)
    assert math.isclose(1 / replica.seconds_per_token, 50_000)


@settings(max_examples=200)
@given(steps)
def test_unstreamed_requests_are_settled_as_if_all_were_looked_at_every_time(
    taken: list[tuple[str, int, int, bool, float]],
) -> None:
    one, other = Outstanding(), Outstanding()
    routes: list[tuple[Route, Route]] = []
    now = 100.0
    for step, which, tokens, is_stream, pause in taken:
        now += pause
        if step == "sent":
            pair = (a_route(tokens, is_stream=is_stream), a_route(tokens, is_stream=is_stream))
            for route, own in zip(pair, (one, other), strict=True):
                route.sent_at, route.expected_seconds = now, which / 10
                own.add(route, now)
            routes.append(pair)
        elif step == "first" and routes:
            for route, own in zip(routes[which % len(routes)], (one, other), strict=True):
                own.note_first(route, now)
        elif step == "finished" and routes:
            for route, own in zip(routes.pop(which % len(routes)), (one, other), strict=True):
                own.remove(route, now)
        else:
            # What is known of when something is due is forgotten: it has to look.
            other._settles_at = 0.0
            one.settle(now)
            other.settle(now)
        assert figures(one) == figures(other)


def figures(own: Outstanding) -> tuple[float, ...]:
    return (
        own.in_flight, own.decoding, own.queued_tokens, own.head_tokens, own.head_at,
        own.unstreamed, own.prompt_tokens, own.progress_at,
    )  # fmt: skip
