"""What an engine says with its answers: it counts beyond what gateways tell, without a keeper."""

from tests.unit.routing.routing_samples import a_request, a_router, replicas, send, serve

from penstock.records.engine_load import EngineLoad
from penstock.records.replica import ReplicaId
from penstock.records.signal import EngineClaim, Signal
from penstock.routing import Router

R0 = ReplicaId("r0")
FULL = EngineLoad(waiting=5, kv_use=0.9)


def _told(load: EngineLoad = FULL) -> Router:
    router = a_router(*replicas(2), kv_tokens=100_000)
    serve(router, a_request("a"), 0.0)
    router.knowledge.hear_answer(R0, load, 1.0)
    return router


def test_a_cache_that_others_have_filled_keeps_a_long_prompt_away() -> None:
    for _ in range(8):
        router = _told()
        route = router.pick(a_request("long", size=80_000), (), 1.1)
        assert route.replica.id == "r1"


def test_what_we_sent_ourselves_is_not_counted_twice() -> None:
    router = a_router(*replicas(1), kv_tokens=100_000)
    for number in range(8):
        send(router, a_request(str(number), size=4000), 0.0)
    known = router.knowledge.find(R0)
    assert known is not None
    share = known.own.prompt_tokens / known.kv_tokens
    router.knowledge.hear_answer(R0, EngineLoad(waiting=8, kv_use=share), 1.0)
    assert (known.others_in_flight, known.others_tokens) == (0, 0)


def test_it_is_forgotten_with_the_next_word() -> None:
    router = _told()
    known = router.knowledge.find(R0)
    assert known is not None
    assert (known.others_in_flight, known.others_tokens) == (5, 90_000)
    router.knowledge.hear_answer(R0, EngineLoad(), 1.5)
    assert (known.others_in_flight, known.others_tokens) == (0, 0)


def test_a_keepers_word_goes_before_it() -> None:
    router = _told(EngineLoad())
    claim = EngineClaim(R0, is_healthy=True, kv_tokens=100_000, own_requests=2, own_tokens=700)
    router.hear(Signal(9, 1, "keeper", engines=[claim]), (), 1.0)
    router.knowledge.hear_answer(R0, FULL, 1.1)
    known = router.knowledge.find(R0)
    assert known is not None
    assert (known.others_in_flight, known.others_tokens) == (2, 700)


def test_a_word_about_nobody_does_nothing() -> None:
    router = _told(EngineLoad())
    router.knowledge.hear_answer(ReplicaId("nobody"), FULL, 1.0)
    assert [known.others_in_flight for known in router.knowledge.all()] == [0, 0]


def test_an_engine_without_metrics_is_not_idle_for_that() -> None:
    router = _told(EngineLoad())
    known = router.knowledge.find(R0)
    assert known is not None
    before = known.engine
    for claim in (EngineClaim(R0, is_healthy=True), EngineClaim(R0, is_healthy=False, kv_tokens=1)):
        router.hear(Signal(9, 1, "keeper", engines=[claim]), (), 1.0)
    assert known.engine == before
