"""The path of a request over real rooms and engines in this loop, to every kind of end."""

import asyncio

import pytest
from tests.unit.engine.engine_answers import (
    ANSWER,
    TOTAL,
    answer_stream,
    answer_whole,
    counted,
)
from tests.unit.engine.tiny_engine import Call, let_the_loop_run, until
from tests.unit.serving.small_fleet import Fleet, busy, die_before_a_word, silent

from penstock.errors import (
    DeadlinePassed,
    EngineFailed,
    EngineLost,
    InvalidRequest,
    NoReplica,
    OutOfCapacity,
    ReplicaUnreachable,
)
from penstock.records.replica import ReplicaId
from penstock.records.usage import Usage
from penstock.serving.settings import ServingSettings


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
    fleet.set_up(ServingSettings(retry_burst=1, retry_share_max=0.0))
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
