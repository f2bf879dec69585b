"""Signals that lie or make no sense: at worst a choice is less good for a moment."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.routing.routing_samples import Roster, a_chain, a_request, replicas, serve
from tests.unit.routing.served_fleet import ServedFleet

from penstock.records.prompt_chain import PromptChain
from penstock.records.signal import (
    EngineClaim,
    LoadClaim,
    PeerState,
    SentPrompt,
    Signal,
    SignalBatch,
)
from penstock.routing import Router, RoutingSettings
from penstock.routing.prefix.index import LINK_MAX

MILLION = 1_000_000
START, STOP = 10.0, 30.0


def loads(**fields: int) -> Callable[[], Signal]:
    given = {
        "outstanding": 0, "head_tokens": 0, "head_age": 0.0, "progress_age": 0.0, "in_flight": 0,
        "decoding": 0, "prompt_tokens": 0, **fields,
    }  # fmt: skip
    return lambda: Signal(666, 1, "elsewhere", loads=[LoadClaim("r0", **given)])  # type: ignore[arg-type]


LIES = {
    "tokens waiting": loads(outstanding=MILLION, head_tokens=MILLION, in_flight=1),
    "tokens waiting, no request": loads(outstanding=MILLION),
    "requests": loads(in_flight=MILLION),
    "requests that decode": loads(in_flight=MILLION, decoding=MILLION),
    "a full cache": loads(in_flight=1, prompt_tokens=2 * MILLION),
    "all at once": loads(
        outstanding=MILLION, in_flight=MILLION, decoding=MILLION, prompt_tokens=MILLION
    ),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lie_keeps_requests_from_a_healthy_replica_for_two_seconds_at_most(
    lie: Callable[[], Signal],
) -> None:
    roster = Roster(*replicas(3))
    router = Router(roster, RoutingSettings())
    fleet = ServedFleet(router, roster)
    router.note_peers(PeerState.HEARD)
    fleet.every(0.05, 0.0, 40.0, fleet.ask)
    fleet.every(0.2, START, STOP, lambda now: router.hear(lie(), (), now))
    fleet.every(0.05, 0.0, 40.0, router.tick)
    fleet.at(STOP, lambda _: router.forget_peer(666))
    fleet.run()
    assert fleet.longest_gap("r0", 0.0, START) < 1.0, "without the lie it has its share"
    assert fleet.longest_gap("r0", START, STOP) <= 2.2
    assert fleet.longest_gap("r0", STOP, 40.0) < 1.0, "nothing is left of it"
    assert router.in_flight() == 0


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lie_about_every_replica_leaves_the_model_open(lie: Callable[[], Signal]) -> None:
    # Otherwise requests would be refused for want of a slot that is there.
    router = Router(Roster(*replicas(1)), RoutingSettings())
    router.note_peers(PeerState.HEARD)
    serve(router, a_request("a"), 0.0)
    busy_since = None
    for step in range(100):
        now = 1.0 + step / 10
        router.hear(lie(), (), now)
        router.tick(now)
        if router.free(a_request().model.id):
            busy_since = None
            serve(router, a_request("b"), now)
        else:
            busy_since = busy_since or now
            assert now - busy_since <= 2.2


def test_true_claims_are_tried_seldom() -> None:
    # Each trial waits long where the others are right: few requests may pay for our doubts.
    router = Router(Roster(*replicas(16, slots=4)), RoutingSettings())
    router.note_peers(PeerState.HEARD)
    claims = [LoadClaim(f"r{n}", 60_000, 0, 9.0, 9.0, 4, 0, 60_000) for n in range(16)]
    sent = 0
    for step in range(200):
        now = 1.0 + step / 20
        if step % 4 == 0:
            router.hear(Signal(1, step, "there", loads=claims), (), now)
            router.tick(now)
        request = a_request(f"{step}")
        if router.free(request.model.id):
            router.sent(router.pick(request, (), now), now)
            sent += 1
    assert 0 < sent <= 4 + 200 / 20


ENGINE_LIES = {
    "is sick": EngineClaim("r0", is_healthy=False),
    "has no cache": EngineClaim("r0", is_healthy=True, kv_tokens=1),
    "is slow": EngineClaim("r0", is_healthy=True, prefill_rate=1e-300),
    "is fast": EngineClaim("r0", is_healthy=True, prefill_rate=1e9),
    "is large": EngineClaim("r0", is_healthy=True, kv_tokens=2**40),
    "is crowded": EngineClaim("r0", True, 2**40, 2**40, kv_use=1.0, kv_tokens=400_000),
    "has one block": EngineClaim("r0", is_healthy=True, kv_tokens=2048, block_tokens=2**40),
    "is busy": EngineClaim("r0", is_healthy=True, own_requests=2**40, own_tokens=2**40),
}


@pytest.mark.parametrize("claim", ENGINE_LIES.values(), ids=ENGINE_LIES)
def test_nothing_breaks_by_what_a_keeper_says_and_it_is_forgotten_when_it_is_silent(
    claim: EngineClaim,
) -> None:
    roster = Roster(*replicas(3))
    router = Router(roster, RoutingSettings())
    fleet = ServedFleet(router, roster)
    signal = Signal(9, 1, "keeper", engines=[claim])
    # While gateways are silent most is made of what engines say of themselves.
    router.note_peers(PeerState.SILENT)
    fleet.every(0.05, 0.0, 60.0, fleet.ask)
    fleet.every(0.2, START, STOP, lambda now: router.hear(signal, (), now))
    fleet.at(STOP, lambda _: router.forget_peer(9))
    fleet.run()
    assert fleet.longest_gap("r0", STOP + 12.0, 60.0) < 2.0
    assert router.in_flight() == 0


names = st.sampled_from(["r0", "r1", "r2", "nobody", "é" * 128])
words = st.integers(0, 2**64 - 1) | st.integers(0, 6)
counts = st.integers(0, 2**40) | st.integers(0, 6)
ages = st.floats(0, 1e6)
prompts = st.builds(
    SentPrompt,
    words,
    names,
    counts,
    st.lists(words, max_size=8),
    st.lists(counts, max_size=8),
    words,
)
signals = st.builds(
    Signal,
    sender=st.integers(0, 3),
    number=words,
    host=st.sampled_from(["here", "there", "elsewhere"]),
    loads=st.lists(
        st.builds(LoadClaim, names, counts, counts, ages, ages, counts, counts, counts), max_size=4
    ),
    batches=st.lists(st.builds(SignalBatch, words, st.lists(prompts, max_size=4)), max_size=2),
    engines=st.lists(
        st.builds(
            EngineClaim,
            names,
            st.booleans(),
            counts,
            counts,
            st.floats(0, 1),
            counts,
            st.floats(0, 1e9),
            counts,
            counts,
        ),
        max_size=3,
    ),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(signals, st.integers(1, 3), st.floats(0, 3)), max_size=6))
def test_no_signal_of_the_right_form_breaks_anything(
    said: list[tuple[Signal, int, float]],
) -> None:
    router = Router(Roster(*replicas(3, slots=4)), RoutingSettings(links_max=1024), None, "here")
    router.note_peers(PeerState.HEARD)
    now = 100.0
    routes = []
    for turn, (signal, times, pause) in enumerate(said):
        heard = msgspec.msgpack.decode(msgspec.msgpack.encode(signal), type=Signal)
        assert heard == signal, "what is heard has come over the wire"
        news = [prompt for batch in signal.batches for prompt in batch.sent]
        for _ in range(times):
            router.hear(signal, news, now)
        chain = a_chain("tools", "system", "hello", str(turn))
        if news and (
            links := tuple(dict.fromkeys(link for link in news[0].links if 0 < link <= LINK_MAX))
        ):
            sizes = (4000,) * len(links)
            chain = PromptChain(links, sizes, chain.earlier, chain.has_system, chain.opening)
        request = a_request(chain=chain, session=turn % 3, is_stream=bool(turn % 2))
        assert router.explain(request, now)
        route = router.pick(request, (), now)
        router.sent(route, now)
        routes.append(route)
        now += pause
        router.tick(now)
        router.free(request.model.id)
        told = router.tell(now)
        data = msgspec.msgpack.encode(Signal(1, 1, "here", told.loads, [SignalBatch(1, told.sent)]))
        msgspec.msgpack.decode(data, type=Signal)
        if turn % 3 == 2:
            router.forget_peer(signal.sender)
    for route in routes:
        router.first_token(route, now)
        router.finished(route, None, now)
    for sender in range(4):
        router.forget_peer(sender)
    for known in router.knowledge.all():
        assert (known.own.in_flight, known.in_flight) == (0, 0)
        assert known.queue(now) == 0
    router.keep_only(())
    assert len(router.knowledge.index) == 0


def test_link_that_is_repeated_in_a_prompt_does_no_harm() -> None:
    router = Router(Roster(*replicas(3)), RoutingSettings(holders_max=1, links_max=1024))
    serve(router, a_request("a"), 0.0)
    for name in ("r0", "r1", "r2", "r0"):
        prompt = SentPrompt(1, name, 0, [5, 5, 6, 5], [1, 1, 1, 1])
        router.hear(Signal(1, 1, "there"), [prompt], 1.0)
    router.keep_only(())
    assert len(router.knowledge.index) == 0


def test_links_that_are_no_digests_are_not_taken_in() -> None:
    router = Router(Roster(*replicas(1)), RoutingSettings())
    router.keep_only(replicas(1))
    for link in (LINK_MAX + 1, 2**63, 2**64 - 1):
        router.hear(Signal(1, 1, "there"), [SentPrompt(1, "r0", 0, [5, link], [1, 1])], 1.0)
    assert len(router.knowledge.index) == 0
    router.hear(Signal(1, 1, "there"), [SentPrompt(1, "r0", 0, [5, LINK_MAX], [1, 1])], 1.0)
    assert router.knowledge.index.look((5, LINK_MAX)).depth == 1


def test_claims_about_replicas_that_are_not_known_leave_no_trace() -> None:
    router = Router(Roster(*replicas(1)), RoutingSettings())
    claim = LoadClaim("nobody", 1, 1, 0.0, 0.0, 1, 1, 1)
    router.hear(Signal(1, 1, "there", loads=[claim]), (), 0.0)
    router.forget_peer(1)
    router.forget_peer(1)
    assert [known.replica.id for known in router.knowledge.all()] in ([], ["r0"])
