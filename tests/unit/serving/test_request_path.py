"""The path of a request over real rooms and engines in this loop, to every kind of end."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.engine.engine_line import MODEL, Collector, make_request
from tests.unit.engine.test_replica_client import (
    ANSWER,
    TOTAL,
    answer_stream,
    answer_whole,
    counted,
)
from tests.unit.engine.tiny_engine import Answer, Call, TinyEngine, let_the_loop_run, until

from penstock import admission, routing
from penstock.clock import TimerWheel
from penstock.engine.settings import Settings as EngineSettings
from penstock.errors import (
    DeadlinePassed,
    EngineFailed,
    EngineLost,
    InvalidRequest,
    NoReplica,
    OutOfCapacity,
    ReplicaUnreachable,
)
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.probing import Prober
from penstock.serving.request_path import RequestPath
from penstock.serving.settings import Settings
from penstock.testing.manual_clock import ManualClock


class Fleet:
    """Engines, the roster that names them, and the rooms of one gateway worker."""

    def __init__(self) -> None:
        self.engines: list[TinyEngine] = []
        self.replicas: list[Replica] = []
        self.slots = 256
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock)
        self.set_up()

    def set_up(
        self, serving: Settings | None = None, waiting: admission.Settings | None = None
    ) -> None:
        self.router = routing.Router(self, routing.Settings())
        self.clients = FleetClients(EngineSettings(), self.wheel, self.clock)
        self.gate = admission.Gate(self.router, waiting or admission.Settings(), self.wheel)
        self.path = RequestPath(
            self.gate, self.router, self.clients, serving or Settings(), self.clock
        )
        self.prober = Prober(self.router, self.clients, self.clock)

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        assert model == MODEL.id
        return tuple(self.replicas)

    async def add(self, *answers: Answer) -> TinyEngine:
        engine = await TinyEngine(*answers).start()
        self.engines.append(engine)
        replica = Replica(
            id=ReplicaId(f"r{len(self.replicas)}"),
            model=MODEL.id,
            url=engine.url,
            state=ReplicaState.READY,
            served_name="served",
            slots_live=self.slots,
        )
        self.replicas.append(replica)
        return engine

    def start(self, *, is_stream: bool = False, reject_if_busy: bool = False) -> "Visit":
        return Visit(self, is_stream=is_stream, reject_if_busy=reject_if_busy)

    async def close(self) -> None:
        try:
            self.clients.close()
            assert self.router.outstanding.total() == 0, "something is still counted in flight"
            assert self.gate.waiting() == {}
            armed = [timer for slot in self.wheel._slots for timer in slot if timer.is_armed]
            assert armed == [], "a timer was left armed"
        finally:
            for engine in self.engines:
                await engine.stop()


class Visit:
    """One request on its way."""

    def __init__(self, fleet: Fleet, *, is_stream: bool, reject_if_busy: bool) -> None:
        self.sink = Collector()
        self.end = RequestEnd()
        request = make_request(is_stream=is_stream, reject_if_busy=reject_if_busy)
        self.task = asyncio.ensure_future(fleet.path.run(request, self.sink, self.end))

    async def done(self) -> "Visit":
        await self.task
        return self


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    made = Fleet()
    yield made
    await made.close()


async def die_before_a_word(call: Call) -> None:
    call.writer.transport.abort()


async def busy(call: Call) -> None:
    await call.answer(b'{"error":{"message":"engine is currently busy"}}', status=503)


async def test_request_is_served_and_its_facts_are_known(fleet: Fleet) -> None:
    await fleet.add(answer_whole)
    visit = await fleet.start().done()
    assert visit.sink.answer == ANSWER
    assert visit.end.attempts == 1
    assert visit.end.replica == "r0"
    assert visit.end.usage == Usage(3, 2, 1)
    assert visit.end.first_token_seconds == 0.0
    assert visit.end.streamed_seconds is None
    assert visit.end.waited_seconds == 0.0


async def test_stream_is_timed_from_its_first_data_to_its_last(fleet: Fleet) -> None:
    go_on = asyncio.Event()

    async def slowly(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await go_on.wait()
        await call.chunk(TOTAL + b"data: [DONE]\n\n")
        await call.end_stream()

    engine = await fleet.add(slowly)
    visit = fleet.start(is_stream=True)
    await until(lambda: bool(engine.calls))
    await until(lambda: bool(visit.sink.events))
    fleet.clock.advance(5.0)
    go_on.set()
    await visit.done()
    assert visit.end.streamed_seconds == 5.0
    assert visit.end.usage == Usage(3, 2, 1)


async def test_replica_that_dies_before_a_word_is_never_noticed_by_the_caller(
    fleet: Fleet,
) -> None:
    bad = [await fleet.add(die_before_a_word) for _ in range(2)]
    good = await fleet.add(answer_stream)
    for _ in range(3):
        visit = await fleet.start(is_stream=True).done()
        assert b"".join(visit.sink.events).endswith(b"data: [DONE]\n\n")
        assert visit.end.replica == "r2"
        assert visit.end.usage == Usage(3, 2, 1)
    assert sum(len(engine.calls) for engine in bad) <= 2, "ejected, they are left alone"
    assert len(good.calls) == 3


async def test_engine_that_refuses_connections_is_left_for_another(fleet: Fleet) -> None:
    gone = await fleet.add(answer_whole)
    await gone.stop()
    await fleet.add(answer_whole)
    for _ in range(4):
        assert (await fleet.start().done()).end.replica == "r1"
    assert ReplicaId("r0") in fleet.router.ejections


async def test_busy_engine_is_left_for_another_but_not_ejected(fleet: Fleet) -> None:
    await fleet.add(busy)
    await fleet.add(answer_whole)
    for _ in range(4):
        assert (await fleet.start().done()).sink.answer == ANSWER
    assert len(fleet.router.ejections) == 0


async def test_stream_lost_between_head_and_first_data_is_tried_elsewhere(fleet: Fleet) -> None:
    async def head_only(call: Call) -> None:
        await call.begin_stream()
        call.writer.transport.abort()

    await fleet.add(head_only)
    await fleet.add(answer_stream)
    for _ in range(2):
        visit = await fleet.start(is_stream=True).done()
        assert b"".join(visit.sink.events).endswith(b"data: [DONE]\n\n")


async def test_stream_lost_after_its_first_data_is_not_run_again(fleet: Fleet) -> None:
    async def half(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        call.writer.transport.abort()

    engines = [await fleet.add(half), await fleet.add(half)]
    visit = fleet.start(is_stream=True)
    with pytest.raises(EngineLost):
        await visit.done()
    assert visit.end.attempts == 1
    assert sum(len(engine.calls) for engine in engines) == 1
    assert visit.end.usage == Usage(3, 1)
    assert visit.end.first_token_seconds is not None


@pytest.mark.parametrize(("status", "kind"), [(400, InvalidRequest), (500, EngineFailed)])
async def test_engines_answer_that_another_would_give_too_is_not_retried(
    fleet: Fleet, status: int, kind: type[Exception]
) -> None:
    async def refuse(call: Call) -> None:
        await call.answer(b"{}", status=status)

    engines = [await fleet.add(refuse), await fleet.add(refuse)]
    with pytest.raises(kind):
        await fleet.start().done()
    assert sum(len(engine.calls) for engine in engines) == 1


async def test_timeout_is_never_retried(fleet: Fleet) -> None:
    async def silent(call: Call) -> None:
        await call.wait_until_dropped()

    engines = [await fleet.add(silent), await fleet.add(silent)]
    visit = fleet.start(is_stream=True)
    await until(lambda: any(engine.calls for engine in engines))
    await let_the_loop_run()
    for _ in range(61):
        fleet.clock.advance(10)
        fleet.wheel.advance()
    with pytest.raises(DeadlinePassed):
        await visit.done()
    assert sum(len(engine.calls) for engine in engines) == 1


async def test_request_is_tried_at_most_twice_again(fleet: Fleet) -> None:
    engines = [await fleet.add(die_before_a_word) for _ in range(5)]
    visit = fleet.start()
    with pytest.raises(ReplicaUnreachable):
        await visit.done()
    assert visit.end.attempts == 3
    assert sum(len(engine.calls) for engine in engines) == 3


async def test_each_try_goes_to_another_replica(fleet: Fleet) -> None:
    engines = [await fleet.add(busy) for _ in range(3)]
    with pytest.raises(OutOfCapacity):
        await fleet.start().done()
    assert [len(engine.calls) for engine in engines] == [1, 1, 1]


async def test_retries_stop_when_the_budget_is_spent(fleet: Fleet) -> None:
    fleet.set_up(Settings(retry_burst=1, retry_share_max=0.0))
    engines = [await fleet.add(busy) for _ in range(3)]
    attempts = []
    for _ in range(3):
        visit = fleet.start()
        with pytest.raises(OutOfCapacity):
            await visit.done()
        attempts.append(visit.end.attempts)
    assert attempts == [2, 1, 1]
    assert sum(len(engine.calls) for engine in engines) == 4


async def test_only_replicas_own_word_is_the_answer_when_there_is_no_other(fleet: Fleet) -> None:
    await fleet.add(busy)
    with pytest.raises(OutOfCapacity) as refused:
        await fleet.start().done()
    assert refused.value.status == 429


async def test_model_without_a_replica_is_refused_at_once(fleet: Fleet) -> None:
    visit = fleet.start()
    with pytest.raises(NoReplica):
        await visit.done()
    assert visit.end.attempts == 0
    assert visit.end.usage is None


async def test_request_waits_for_a_slot_and_its_wait_is_known(fleet: Fleet) -> None:
    fleet.slots = 1
    go_on = asyncio.Semaphore(0)

    async def when_told(call: Call) -> None:
        await go_on.acquire()
        await call.answer(ANSWER)

    engine = await fleet.add(when_told)
    first, second = fleet.start(), fleet.start()
    await until(lambda: len(engine.calls) == 1)
    await let_the_loop_run()
    assert len(engine.calls) == 1
    fleet.clock.advance(3.0)
    go_on.release()
    await first.done()
    await until(lambda: len(engine.calls) == 2)
    go_on.release()
    await second.done()
    assert first.end.waited_seconds == 0.0
    assert second.end.waited_seconds == 3.0


async def test_busy_model_refuses_those_that_would_not_wait(fleet: Fleet) -> None:
    fleet.slots = 1

    async def silent(call: Call) -> None:
        await call.wait_until_dropped()

    engine = await fleet.add(silent)
    first = fleet.start()
    await until(lambda: len(engine.calls) == 1)
    second = fleet.start(reject_if_busy=True)
    with pytest.raises(OutOfCapacity):
        await second.done()
    assert second.end.attempts == 0
    first.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first.done()
    await until(lambda: engine.dropped == 1)


async def test_caller_that_leaves_frees_its_slot_and_the_engine(fleet: Fleet) -> None:
    fleet.slots = 1

    async def silent_first(call: Call) -> None:
        if len(call.engine.calls) == 1:
            await call.wait_until_dropped()
        else:
            await call.answer(ANSWER)

    engine = await fleet.add(silent_first)
    first, second = fleet.start(), fleet.start()
    await until(lambda: len(engine.calls) == 1)
    first.task.cancel()
    assert (await second.done()).sink.answer == ANSWER
    await until(lambda: engine.dropped == 1)
    with pytest.raises(asyncio.CancelledError):
        await first.done()
    assert first.end.attempts == 1


async def test_no_replica_runs_more_than_its_slots_and_all_are_served(fleet: Fleet) -> None:
    fleet.slots = 2
    running = {0: 0, 1: 0}
    most = 0

    def counting(index: int) -> Answer:
        async def answer(call: Call) -> None:
            nonlocal most
            running[index] += 1
            most = max(most, running[index])
            await asyncio.sleep(0.001)
            running[index] -= 1
            await call.answer(ANSWER)

        return answer

    for index in range(2):
        await fleet.add(counting(index))
    visits = [fleet.start() for _ in range(40)]
    for visit in visits:
        assert (await visit.done()).sink.answer == ANSWER
    assert most == 2


async def test_all_that_wait_are_told_at_once_when_the_last_replica_goes(fleet: Fleet) -> None:
    fleet.slots = 1

    async def silent(call: Call) -> None:
        await call.wait_until_dropped()

    engine = await fleet.add(silent)
    first = fleet.start()
    await until(lambda: len(engine.calls) == 1)
    waiting = [fleet.start() for _ in range(20)]
    await until(lambda: fleet.gate.waiting() == {MODEL.id: 20})
    fleet.replicas.clear()
    fleet.gate.capacity_changed()
    for visit in waiting:
        with pytest.raises(NoReplica):
            await visit.done()
    first.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first.done()


async def test_ejected_replica_comes_back_with_its_first_healthy_probe(fleet: Fleet) -> None:
    async def sick_then_well(call: Call) -> None:
        if call.head.startswith(b"GET /health"):
            await call.answer(b"", status=200 if len(call.engine.calls) > 2 else 500)
        elif len(call.engine.calls) == 1:
            call.writer.transport.abort()
        else:
            await call.answer(ANSWER)

    engine = await fleet.add(sick_then_well)
    with pytest.raises(ReplicaUnreachable):
        await fleet.start().done()
    assert ReplicaId("r0") in fleet.router.ejections
    await fleet.prober.probe_due()
    assert len(engine.calls) == 1, "it is left alone for a second"
    fleet.clock.advance(1.0)
    await fleet.prober.probe_due()
    assert ReplicaId("r0") in fleet.router.ejections, "it answered 500"
    fleet.clock.advance(1.0)
    await fleet.prober.probe_due()
    assert ReplicaId("r0") not in fleet.router.ejections
    assert (await fleet.start().done()).sink.answer == ANSWER


async def test_replica_that_nobody_has_a_client_for_is_simply_restored(fleet: Fleet) -> None:
    fleet.router.ejections.eject(ReplicaId("unknown"), 0.0)
    await fleet.prober.probe_due()
    assert len(fleet.router.ejections) == 0


async def test_stream_on_a_replica_that_leaves_the_roster_runs_to_its_end(fleet: Fleet) -> None:
    go_on = asyncio.Event()

    async def slowly(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await go_on.wait()
        await call.chunk(b"data: [DONE]\n\n")
        await call.end_stream()

    engine = await fleet.add(slowly)
    visit = fleet.start(is_stream=True)
    await until(lambda: bool(visit.sink.events))
    client = fleet.clients.to(fleet.replicas[0])
    fleet.replicas.clear()
    fleet.clients.keep_only(())
    go_on.set()
    await visit.done()
    assert engine.accepted == 1
    await until(lambda: client.open_connections == 0)


async def test_clients_are_kept_while_their_replicas_are(fleet: Fleet) -> None:
    await fleet.add(answer_whole)
    await fleet.add(answer_whole)
    for _ in range(2):
        await fleet.start().done()
    assert fleet.clients.open_connections() == 2
    first = fleet.clients.find(ReplicaId("r0"))
    fleet.clients.keep_only([fleet.replicas[0]])
    assert fleet.clients.find(ReplicaId("r0")) is first
    assert fleet.clients.find(ReplicaId("r1")) is None
    assert fleet.clients.open_connections() == 1
