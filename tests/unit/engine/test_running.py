"""A coroutine that is run without a task, until it waits for more than its engine."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from penstock.engine.running import Finish, InTask, Run


class Watched:
    """A run of a coroutine, and what became of it."""

    def __init__(self, work: Callable[[list[str]], Awaitable[None]]) -> None:
        self.told: list[str] = []
        self.ended: list[Run] = []

        async def run() -> None:
            try:
                await work(self.told)
            except asyncio.CancelledError:
                self.told.append("cancelled")
                raise
            finally:
                self.told.append("end")

        self.run = Run(run(), self.ended.append, asyncio.get_running_loop())

    @property
    def has_ended(self) -> bool:
        assert len(self.ended) <= 1, "an end is told once"
        return self.ended == [self.run]


async def test_it_runs_at_once_and_goes_on_in_the_call_that_sets_what_it_waits_for() -> None:
    finish = Finish()

    async def work(told: list[str]) -> None:
        told.append("begun")
        await finish
        told.append("woken")

    watched = Watched(work)
    watched.run.start()
    assert watched.told == ["begun"]
    assert len(asyncio.all_tasks()) == 1, "only the test's own"
    finish.set()
    assert watched.told == ["begun", "woken", "end"]
    assert watched.has_ended


async def test_what_is_set_before_it_is_waited_for_does_not_hold_up() -> None:
    finish = Finish()
    finish.set()
    finish.set()

    async def work(told: list[str]) -> None:
        await finish
        told.append("on")

    watched = Watched(work)
    watched.run.start()
    assert watched.told == ["on", "end"]


async def test_a_task_can_wait_for_the_same() -> None:
    finish = Finish()

    async def wait() -> None:
        await finish

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    finish.set()
    await task


async def test_a_cancelled_task_that_waits_leaves_it_unset() -> None:
    finish = Finish()

    async def wait() -> None:
        await finish

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not finish.is_set
    finish.set()


async def test_what_the_loop_must_do_is_waited_for_in_a_task_which_takes_it_over() -> None:
    future = asyncio.get_running_loop().create_future()
    finish = Finish()

    async def work(told: list[str]) -> None:
        told.append(str(await future))
        told.append("in a task" if asyncio.current_task() is not None else "in none")
        await finish
        told.append("woken")

    watched = Watched(work)
    watched.run.start()
    future.set_result("answer")
    await _turns()
    assert watched.told == ["answer", "in a task"]
    finish.set()
    await _turns()
    assert watched.told == ["answer", "in a task", "woken", "end"]
    assert watched.has_ended


async def test_a_timeout_can_be_used_behind_in_task_and_passes() -> None:
    async def work(told: list[str]) -> None:
        await InTask()
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
        except TimeoutError:
            told.append("late")

    watched = Watched(work)
    watched.run.start()
    await asyncio.sleep(0.05)
    assert watched.told == ["late", "end"]
    assert watched.has_ended


async def test_one_that_is_woken_by_another_task_does_not_take_that_for_its_own() -> None:
    finish = Finish()
    seen: list[object] = []

    async def work(told: list[str]) -> None:
        await finish
        await InTask()
        seen.append(asyncio.current_task())
        told.append("on")

    watched = Watched(work)
    watched.run.start()
    mine = asyncio.current_task()
    finish.set()
    await _turns()
    assert watched.told == ["on", "end"]
    assert seen[0] is not None
    assert seen[0] is not mine


async def test_one_woken_inside_of_another_leaves_that_one_as_it_was() -> None:
    first, second = Finish(), Finish()
    last = Finish()

    async def outer(told: list[str]) -> None:
        second.set()
        told.append("after")
        await last

    async def inner(told: list[str]) -> None:
        await second
        told.append("inner")

    watched_inner, watched_outer = Watched(inner), Watched(outer)
    watched_inner.run.start()
    watched_outer.run.start()
    assert watched_inner.has_ended
    assert watched_outer.told == ["after"]
    last.set()
    assert watched_outer.has_ended
    assert not first.is_set


@pytest.mark.parametrize("at", ["before its start", "at the engine", "at the loop", "new task"])
async def test_a_cancel_ends_it_in_the_next_turn_of_the_loop_wherever_it_is(at: str) -> None:
    finish = Finish()
    future = asyncio.get_running_loop().create_future()

    async def work(told: list[str]) -> None:
        told.append("begun")
        if at == "at the engine":
            await finish
        else:
            await future

    watched = Watched(work)
    if at != "before its start":
        watched.run.start()
    if at == "at the loop":
        await _turns()
    watched.run.cancel(msg="time is up")
    watched.run.cancel()
    assert not watched.ended, "not while somebody goes through all of them"
    await _turns()
    assert watched.has_ended
    assert watched.told == ([] if at == "before its start" else ["begun", "cancelled", "end"])
    assert future.cancelled() == (at in ("at the loop", "new task"))
    # Too late to be of any effect.
    watched.run.start()
    watched.run.cancel()
    finish.set()
    await _turns()
    assert watched.has_ended


async def test_one_that_is_cancelled_while_its_start_is_under_way_never_begins() -> None:
    async def work(told: list[str]) -> None:
        told.append("begun")

    watched = Watched(work)
    asyncio.get_running_loop().call_soon(watched.run.start)
    watched.run.cancel()
    await _turns()
    assert watched.told == []
    assert watched.has_ended


async def test_one_that_ends_before_its_cancel_comes_has_ended_well() -> None:
    finish = Finish()

    async def work(told: list[str]) -> None:
        await finish
        told.append("well")

    watched = Watched(work)
    watched.run.start()
    watched.run.cancel()
    finish.set()
    await _turns()
    assert watched.told == ["well", "end"]
    assert watched.has_ended


async def test_one_that_outlives_a_cancel_can_be_cancelled_again() -> None:
    finish = Finish()

    async def work(told: list[str]) -> None:
        try:
            await finish
        except asyncio.CancelledError:
            told.append("swallowed")
        await finish

    watched = Watched(work)
    watched.run.start()
    watched.run.cancel()
    await _turns()
    assert watched.told == ["swallowed"]
    watched.run.cancel()
    await _turns()
    assert watched.told == ["swallowed", "cancelled", "end"]
    assert watched.has_ended


async def test_a_cancelled_one_leaves_nothing_for_the_garbage_collector() -> None:
    class Body:
        pass

    finish = Finish()

    async def work(told: list[str]) -> None:
        body = Body()
        bodies.append(weakref.ref(body))
        told.append("begun")
        await finish

    bodies = list[weakref.ref[Body]]()
    gc.disable()
    try:
        watched = Watched(work)
        watched.run.start()
        watched.run.cancel()
        await _turns()
        assert watched.has_ended
        assert bodies[0]() is None
    finally:
        gc.enable()


async def test_an_exception_that_should_not_come_out_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(told: list[str]) -> None:
        told.append("begun")
        raise ValueError("a bug")

    watched = Watched(work)
    watched.run.start()
    assert watched.has_ended
    assert "a bug" in caplog.text


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
