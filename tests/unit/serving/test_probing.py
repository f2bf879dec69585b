"""Suspects: replicas that send nothing, or are called sick, and the probe that judges them."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.unit.engine.engine_answers import ANSWER, answer_whole, counted
from tests.unit.engine.tiny_engine import Call, TinyEngine, let_the_loop_run, until
from tests.unit.serving.small_fleet import Fleet, Visit

from penstock.records.replica import ReplicaId

R0 = ReplicaId("r0")


def is_probe(call: Call) -> bool:
    return call.head.startswith(b"GET /health")


def probes(engine: TinyEngine) -> int:
    return sum(is_probe(call) for call in engine.calls)


class Patient:
    """An engine that answers its callers when the test says so, and probes as the test says."""

    def __init__(self, health: int = 200) -> None:
        self.health = health
        self.go_on = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        if is_probe(call):
            await call.answer(b"", status=self.health)
            return
        await self.go_on.wait()
        await call.answer(ANSWER)


async def ask(fleet: Fleet) -> Visit:
    """A request that is under way at the only replica."""
    visit = fleet.start()
    await until(lambda: any(not is_probe(call) for call in fleet.engines[0].calls))
    return visit


async def look_on(fleet: Fleet, seconds: float) -> None:
    """As the prober's loop does, every tenth of a second."""
    for _ in range(round(seconds * 10)):
        fleet.clock.advance(0.1)
        await fleet.prober.probe_due()


async def test_a_silent_replica_whose_health_fails_is_left_out_until_it_answers(
    fleet: Fleet,
) -> None:
    patient = Patient(health=500)
    await fleet.add(patient)
    visit = await ask(fleet)
    await look_on(fleet, 0.8)
    assert R0 in fleet.router.ejections
    patient.health = 200
    await look_on(fleet, 2.0)
    assert R0 not in fleet.router.ejections
    patient.go_on.set()
    assert (await visit.done()).sink.answer == ANSWER


async def test_a_long_prompt_is_asked_about_once_a_second_and_never_left_out(
    fleet: Fleet,
) -> None:
    patient = Patient()
    engine = await fleet.add(patient)
    visit = await ask(fleet)
    await look_on(fleet, 0.5)
    assert probes(engine) == 0
    await look_on(fleet, 10.0)
    assert 8 <= probes(engine) <= 11
    assert fleet.router.ejections.version == 0
    patient.go_on.set()
    await visit.done()


async def test_an_idle_replica_is_not_asked(fleet: Fleet) -> None:
    engine = await fleet.add(answer_whole)
    await fleet.start().done()
    await look_on(fleet, 5.0)
    assert probes(engine) == 0


async def test_silence_begins_with_the_request_and_not_with_the_last_answer(fleet: Fleet) -> None:
    patient = Patient(health=500)
    engine = await fleet.add(answer_whole, patient)
    await fleet.start().done()
    await look_on(fleet, 5.0)
    visit = await ask(fleet)
    await look_on(fleet, 0.5)
    assert probes(engine) == 0
    patient.go_on.set()
    await visit.done()


async def _probed_while(fleet: Fleet, act: Callable[[Call], Awaitable[None]]) -> Visit:
    """A stream falls silent; while its engine is asked for its health, `act` happens."""

    async def stream(call: Call) -> None:
        if is_probe(call):
            await act(streams[0])
            await let_the_loop_run()
            await call.answer(b"", status=500)
            return
        streams.append(call)
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await call.wait_until_dropped()

    streams: list[Call] = []
    await fleet.add(stream)
    visit = fleet.start(is_stream=True)
    await until(lambda: bool(visit.sink.events))
    await look_on(fleet, 0.8)
    return visit


async def _leave(visit: Visit) -> None:
    visit.sink.is_gone = True
    visit.task.cancel()
    await asyncio.wait([visit.task])


async def test_bytes_that_come_during_a_failing_probe_keep_the_replica(fleet: Fleet) -> None:
    visit = await _probed_while(fleet, lambda call: call.chunk(counted(b"b", 2)))
    assert fleet.router.ejections.version == 0
    await _leave(visit)


async def test_no_bytes_during_a_failing_probe_lose_it(fleet: Fleet) -> None:
    visit = await _probed_while(fleet, lambda _: let_the_loop_run())
    assert R0 in fleet.router.ejections
    await _leave(visit)


async def test_a_keepers_word_is_judged_by_a_probe_of_our_own(fleet: Fleet) -> None:
    patient = Patient()
    engine = await fleet.add(patient)
    # Known, and never sent to.
    fleet.router.free(fleet.replicas[0].model)
    for _ in range(30):
        fleet.router.gossip.suspects.add(R0)
        await look_on(fleet, 0.1)
        assert not fleet.router.gossip.suspects
    assert 3 <= probes(engine) <= 4
    assert fleet.router.ejections.version == 0
    patient.health = 500
    fleet.router.gossip.suspects.add(R0)
    await look_on(fleet, 1.0)
    fleet.router.gossip.suspects.add(R0)
    await look_on(fleet, 0.1)
    assert R0 in fleet.router.ejections


async def test_a_word_about_nobody_does_nothing(fleet: Fleet) -> None:
    fleet.router.gossip.suspects.add(ReplicaId("nobody"))
    await fleet.prober.probe_due()
    assert not fleet.router.gossip.suspects
    assert fleet.router.ejections.version == 0


async def test_a_kept_connection_that_closes_under_a_probe_says_nothing_of_health(
    fleet: Fleet,
) -> None:
    async def closes_the_first(call: Call) -> None:
        if not is_probe(call):
            await call.answer(ANSWER)
        elif call.connection == 0:
            call.writer.transport.abort()
        else:
            await call.answer(b"")

    engine = await fleet.add(closes_the_first)
    await fleet.start().done()
    fleet.router.gossip.suspects.add(R0)
    await look_on(fleet, 0.1)
    assert probes(engine) == 2
    assert fleet.router.ejections.version == 0
