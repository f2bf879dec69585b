"""Traces are posted beside the path; what a collector does not take is dropped and counted."""

import asyncio
import logging
from collections.abc import Callable

import msgspec
import pytest
from tests.unit.telemetry.ended_requests import REPLICA, WRITER, Desk, attempt
from tests.unit.telemetry.read_spans import read_spans

from penstock.telemetry.settings import TelemetrySettings
from penstock.telemetry.trace_export import TraceExport


class Taker:
    """Stands for the way to a collector: keeps what it is given, and says what is wrong."""

    def __init__(self, *problems: str) -> None:
        self.bodies: list[bytes] = []
        self._problems = list(problems)

    async def post(self, body: bytes) -> str:
        self.bodies.append(body)
        return self._problems.pop(0) if self._problems else ""

    def counts(self) -> list[int]:
        return [len(read_spans(body)) for body in self.bodies]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110 - what is waited for is not ours to signal
            await asyncio.sleep(0.001)


def export_of(desk: Desk, taker: Taker, **settings: float) -> TraceExport:
    made = TelemetrySettings(**settings)  # type: ignore[arg-type]
    return TraceExport(desk.traces, WRITER, taker.post, made, pause_seconds=0.001)


async def test_all_that_waits_is_posted_in_batches() -> None:
    desk, taker = Desk(traces_share=1.0), Taker()
    for _ in range(7):
        desk.end()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(export_of(desk, taker, traces_batch=3).run())
        await until(lambda: desk.traces.waiting == 0)
        running.cancel()
    assert taker.counts() == [3, 3, 1]
    assert desk.traces.dropped == 0


async def test_what_is_not_taken_is_counted_and_the_rest_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    desk, taker = Desk(traces_share=1.0), Taker("status 503", "status 503")
    for _ in range(8):
        desk.end()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(export_of(desk, taker, traces_batch=3).run())
        await until(lambda: desk.traces.waiting == 0)
        running.cancel()
    assert taker.counts() == [3, 3, 2]
    assert desk.traces.dropped == 6
    # Once for the whole outage, and once at its end.
    assert [each.getMessage() for each in caplog.records] == [
        "traces are not taken",
        "traces are taken again",
    ]


async def test_what_waits_is_posted_at_the_end() -> None:
    desk, taker = Desk(traces_share=1.0), Taker()
    desk.end()
    await export_of(desk, taker).finish()
    assert taker.counts() == [1]


async def test_a_collector_that_hangs_does_not_hold_up_the_end() -> None:
    desk = Desk(traces_share=1.0)
    desk.end()

    async def hang(body: bytes) -> str:
        del body
        await asyncio.get_running_loop().create_future()
        return ""

    settings = TelemetrySettings(traces_timeout_seconds=0.1)
    async with asyncio.timeout(2):
        await TraceExport(desk.traces, WRITER, hang, settings).finish()


async def test_a_fault_in_one_batch_does_not_end_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk, taker = Desk(traces_share=1.0), Taker()
    broken = desk.end()
    assert broken.trace is not None
    nowhere = msgspec.structs.replace(REPLICA, url="http://[nowhere")
    broken.trace.attempts.append(attempt(1000.0, replica=nowhere))
    desk.end()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(export_of(desk, taker, traces_batch=1).run())
        await until(lambda: bool(taker.bodies))
        running.cancel()
    assert taker.counts() == [1]
    assert desk.traces.dropped == 1
    assert "traces cannot be written" in caplog.text
