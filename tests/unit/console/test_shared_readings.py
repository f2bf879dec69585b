"""Readings that many share: one at a time for a question, and none kept that failed."""

import asyncio

import pytest

from penstock.console.screens.shared_readings import SharedReadings
from penstock.errors import StoreUnavailable
from penstock.testing.manual_clock import ManualClock


class Reading:
    def __init__(self) -> None:
        self.count = 0
        self.gate = asyncio.Event()
        self.fails = False

    async def __call__(self) -> int:
        self.count += 1
        await self.gate.wait()
        if self.fails:
            raise StoreUnavailable
        return self.count


async def test_fifty_readers_share_one_reading_for_a_second() -> None:
    clock, reading = ManualClock(), Reading()
    shared = SharedReadings(clock)
    asked = [asyncio.ensure_future(shared.read("q", 1.0, reading)) for _ in range(50)]
    await asyncio.sleep(0)
    reading.gate.set()
    assert await asyncio.gather(*asked) == [1] * 50
    clock.advance(0.9)
    assert await shared.read("q", 1.0, reading) == 1
    clock.advance(0.2)
    assert await shared.read("q", 1.0, reading) == 2
    assert await shared.read("other", 1.0, reading) == 3


async def test_a_reader_that_leaves_does_not_end_the_reading_of_the_others() -> None:
    clock, reading = ManualClock(), Reading()
    shared = SharedReadings(clock)
    first = asyncio.ensure_future(shared.read("q", 1.0, reading))
    second = asyncio.ensure_future(shared.read("q", 1.0, reading))
    await asyncio.sleep(0)
    first.cancel()
    reading.gate.set()
    assert await second == 1


async def test_a_failure_is_not_kept() -> None:
    clock, reading = ManualClock(), Reading()
    shared = SharedReadings(clock)
    reading.gate.set()
    reading.fails = True
    with pytest.raises(StoreUnavailable):
        await shared.read("q", 1.0, reading)
    reading.fails = False
    assert await shared.read("q", 1.0, reading) == 2


async def test_what_is_kept_is_bounded() -> None:
    clock, reading = ManualClock(), Reading()
    shared = SharedReadings(clock)
    reading.gate.set()
    for number in range(1500):
        await shared.read(number, 60.0, reading)
    assert len(shared._kept) <= 1000


async def test_a_slow_reading_has_no_second_one_beside_it() -> None:
    clock, reading = ManualClock(), Reading()
    shared = SharedReadings(clock)
    asked = [asyncio.ensure_future(shared.read("q", 1.0, reading))]
    await asyncio.sleep(0)
    for _ in range(5):
        clock.advance(1.5)
        asked.append(asyncio.ensure_future(shared.read("q", 1.0, reading)))
        # Another question drops what is old, and not this one.
        other = asyncio.ensure_future(shared.read(f"other {clock.now()}", 1.0, reading))
        asked.append(other)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reading.count == 6
    reading.gate.set()
    await asyncio.gather(*asked)
    # Its answer is older than a second by now.
    assert await shared.read("q", 1.0, reading) == 7


async def test_a_failure_that_nobody_waited_for_is_not_answered_later() -> None:
    clock, reading = ManualClock(), Reading()
    shared = SharedReadings(clock)
    reading.fails = True
    left = asyncio.ensure_future(shared.read("q", 1.0, reading))
    await asyncio.sleep(0)
    left.cancel()
    reading.gate.set()
    await asyncio.sleep(0)
    reading.fails = False
    assert await shared.read("q", 1.0, reading) == 2


async def test_many_failures_of_one_reading_keep_no_long_traceback() -> None:
    clock, reading = ManualClock(), Reading()
    shared = SharedReadings(clock)
    reading.fails = True
    asked = [asyncio.ensure_future(shared.read("q", 1.0, reading)) for _ in range(100)]
    await asyncio.sleep(0)
    reading.gate.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in found] == [StoreUnavailable] * 100
    error, depth = found[0], 0
    assert isinstance(error, Exception)
    trace = error.__traceback__
    while trace is not None:
        trace, depth = trace.tb_next, depth + 1
    assert depth < 5


async def test_after_a_change_everything_is_read_anew() -> None:
    clock, reading = ManualClock(), Reading()
    reading.gate.set()
    shared = SharedReadings(clock)
    assert await shared.read("q", 1.0, reading) == 1
    shared.forget()
    assert await shared.read("q", 1.0, reading) == 2
