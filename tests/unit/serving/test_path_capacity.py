"""A busy model on the path: requests wait for slots in turn, and no slot is lost."""

import asyncio

import pytest
from tests.unit.engine.engine_answers import (
    ANSWER,
)
from tests.unit.engine.engine_line import MODEL
from tests.unit.engine.tiny_engine import Answer, Call, let_the_loop_run, until
from tests.unit.serving.small_fleet import Fleet, silent

from penstock.errors import (
    NoReplica,
    OutOfCapacity,
)


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
