"""Timeouts, cancelling and back-pressure of one try: each ends or holds it, and leaves nothing."""

import asyncio
import contextlib
import socket

import pytest
from tests.unit.engine.engine_answers import ANSWER, answer_whole, counted
from tests.unit.engine.engine_line import Collector, Line, Lines, Notes, make_request
from tests.unit.engine.tiny_engine import Call, let_the_loop_run, until

from penstock.engine.settings import EngineSettings
from penstock.errors import DeadlinePassed, ReplicaUnreachable
from penstock.records.usage import Usage

SETTINGS = EngineSettings(
    first_byte_seconds=600.0,
    between_bytes_seconds=60.0,
    total_seconds=3600.0,
)
DONE = b"data: [DONE]\n\n"


class Running:
    """A try under way."""

    def __init__(self, line: Line, *, is_stream: bool) -> None:
        request = make_request(is_stream=is_stream)
        self.line = line
        self.sink = Collector()
        self.attempt = line.client.attempt(request, self.sink, Notes())
        self.task = asyncio.ensure_future(line.client.run(request, self.attempt))

    async def until_sent(self) -> None:
        await until(lambda: bool(self.line.engine.calls))
        await let_the_loop_run()

    async def passes(self, seconds: float) -> None:
        """Let time pass by ticks, as it does, and the loop run between."""
        for _ in range(10):
            self.line.pass_time(seconds / 10)
            await asyncio.sleep(0)

    async def outlasts(self, seconds: float) -> None:
        await self.passes(seconds)
        assert not self.task.done()


async def silent(call: Call) -> None:
    await call.wait_until_dropped()


async def test_stream_without_a_first_byte_ends_at_its_timeout(lines: Lines) -> None:
    running = Running(await lines.open(silent, settings=SETTINGS), is_stream=True)
    await running.until_sent()
    await running.outlasts(599)
    await running.passes(2)
    with pytest.raises(DeadlinePassed):
        await running.task
    assert running.attempt.first_data_at is None
    await until(lambda: running.line.engine.dropped == 1)


async def test_head_alone_is_no_first_byte(lines: Lines) -> None:
    async def head_only(call: Call) -> None:
        await call.begin_stream()
        await call.wait_until_dropped()

    running = Running(await lines.open(head_only, settings=SETTINGS), is_stream=True)
    await running.until_sent()
    assert running.sink.begun == 1
    await running.outlasts(599)
    await running.passes(2)
    with pytest.raises(DeadlinePassed):
        await running.task


async def test_whole_answer_may_take_the_total_time_to_its_first_byte(lines: Lines) -> None:
    running = Running(await lines.open(silent, settings=SETTINGS), is_stream=False)
    await running.until_sent()
    await running.outlasts(3599)
    await running.passes(2)
    with pytest.raises(DeadlinePassed):
        await running.task
    assert running.attempt.usage is None
    await until(lambda: running.line.engine.dropped == 1)


async def test_stream_that_falls_silent_ends_at_its_own_timeout(lines: Lines) -> None:
    async def stall(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await call.wait_until_dropped()

    running = Running(await lines.open(stall, settings=SETTINGS), is_stream=True)
    await until(lambda: bool(running.sink.events))
    await running.outlasts(59)
    await running.passes(2)
    with pytest.raises(DeadlinePassed):
        await running.task
    assert running.attempt.usage == Usage(3, 1)
    await until(lambda: running.line.engine.dropped == 1)


async def test_each_read_gives_a_stream_new_time_even_half_an_event(lines: Lines) -> None:
    more = asyncio.Queue[bytes]()

    async def slowly(call: Call) -> None:
        await call.begin_stream()
        while data := await more.get():
            await call.chunk(data)
        await call.end_stream()

    line = await lines.open(slowly, settings=SETTINGS)
    running = Running(line, is_stream=True)
    event = counted(b"a", 1)
    for data in (event, event, event[:9], event[9:30], event[30:]):
        more.put_nowait(data)
        await let_the_loop_run()
        await running.outlasts(50)
    for data in (DONE, b""):
        more.put_nowait(data)
    await running.task


async def test_stream_that_never_ends_is_ended_at_the_total_timeout(lines: Lines) -> None:
    go_on = asyncio.Semaphore(0)

    async def for_ever(call: Call) -> None:
        await call.begin_stream()
        for _ in range(72):
            await go_on.acquire()
            await call.chunk(counted(b"a", 1))
        await call.wait_until_dropped()

    line = await lines.open(for_ever, settings=SETTINGS)
    running = Running(line, is_stream=True)
    for number in range(1, 73):
        go_on.release()
        await until(lambda seen=number: len(running.sink.events) == seen)  # type: ignore[misc]
        line.pass_time(49.9)
        await asyncio.sleep(0)
    assert not running.task.done()
    await running.passes(10)
    with pytest.raises(DeadlinePassed):
        await running.task


async def test_total_time_is_not_given_again_to_a_second_connection(lines: Lines) -> None:
    async def late_close(call: Call) -> None:
        await asyncio.sleep(0.01)
        call.close()

    line = await lines.open(answer_whole, late_close, silent, settings=SETTINGS)
    await Running(line, is_stream=False).task
    running = Running(line, is_stream=False)
    await until(lambda: len(line.engine.calls) == 2)
    line.clock.advance(3000)
    await until(lambda: len(line.engine.calls) == 3)
    await running.outlasts(590)
    await running.passes(11)
    with pytest.raises(DeadlinePassed):
        await running.task


@pytest.mark.parametrize("is_stream", [True, False])
async def test_cancelling_drops_the_connection_at_once(lines: Lines, is_stream: bool) -> None:
    running = Running(await lines.open(silent), is_stream=is_stream)
    await running.until_sent()
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    await until(lambda: running.line.engine.dropped == 1)
    await until(lambda: running.line.client.open_connections == 0)


async def test_cancelling_in_mid_stream_keeps_the_usage_so_far(lines: Lines) -> None:
    async def stall(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1) + counted(b"b", 2))
        await call.wait_until_dropped()

    running = Running(await lines.open(stall), is_stream=True)
    await until(lambda: bool(running.sink.events))
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    assert running.attempt.usage == Usage(3, 2)
    await until(lambda: running.line.engine.dropped == 1)


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_while_the_connection_opens_leaves_none(lines: Lines, turns: int) -> None:
    line = await lines.open(silent)
    running = Running(line, is_stream=True)
    for _ in range(turns):
        await asyncio.sleep(0)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    await let_the_loop_run()
    assert line.client.open_connections == 0


async def test_connect_timeout_makes_a_replica_unreachable(lines: Lines) -> None:
    line = await lines.open(answer_whole, settings=EngineSettings(connect_seconds=0.03))
    # A full backlog: the kernel answers no further connection.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.socket() as first, socket.socket() as second:
            for each in (first, second):
                each.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    each.connect(full.getsockname())
            line.client._pool._port = full.getsockname()[1]
            with pytest.raises(ReplicaUnreachable):
                await Running(line, is_stream=False).task
    assert line.client.open_connections == 0


async def test_engine_is_not_read_while_the_caller_is_behind(lines: Lines) -> None:
    go_on = asyncio.Event()

    async def two_parts(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await go_on.wait()
        await call.chunk(counted(b"b", 2) + DONE)
        await call.end_stream()

    line = await lines.open(two_parts, settings=SETTINGS)
    running = Running(line, is_stream=True)
    running.sink.is_full = True
    await until(lambda: bool(running.sink.events))
    go_on.set()
    await let_the_loop_run()
    assert len(running.sink.events) == 1
    # The engine is not to blame for the silence: far more than `between_bytes_seconds` may pass.
    await running.outlasts(600)
    running.sink.drain()
    await running.task
    assert b"".join(running.sink.events).endswith(DONE)


async def test_engine_cannot_send_more_than_the_kernel_holds_while_the_caller_is_behind(
    lines: Lines,
) -> None:
    sent = 0
    event = counted(b"x" * 60_000, 1)

    async def flood(call: Call) -> None:
        nonlocal sent
        await call.begin_stream()
        for _ in range(600):
            await call.chunk(event)
            sent += 1
        await call.chunk(DONE)
        await call.end_stream()

    line = await lines.open(flood, settings=SETTINGS)
    running = Running(line, is_stream=True)
    running.sink.is_full = True
    await until(lambda: bool(running.sink.events))
    before = -1
    while before != sent:
        before = sent
        await let_the_loop_run()
    assert sent < 450, "back-pressure reaches the engine"
    received = sum(map(len, running.sink.events))
    assert received < 4 * 2**20
    running.sink.drain()
    await running.task
    assert sent == 600
    assert b"".join(running.sink.events).count(b"data: {") == 600


async def test_silence_after_the_caller_has_caught_up_is_the_engines_again(lines: Lines) -> None:
    async def stall(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await call.wait_until_dropped()

    running = Running(await lines.open(stall, settings=SETTINGS), is_stream=True)
    running.sink.is_full = True
    await until(lambda: bool(running.sink.events))
    await running.outlasts(1000)
    running.sink.drain()
    await running.outlasts(59)
    await running.passes(2)
    with pytest.raises(DeadlinePassed):
        await running.task


async def test_caller_that_never_catches_up_is_ended_at_the_total_timeout(lines: Lines) -> None:
    async def stall(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await call.wait_until_dropped()

    running = Running(await lines.open(stall, settings=SETTINGS), is_stream=True)
    running.sink.is_full = True
    await until(lambda: bool(running.sink.events))
    await running.outlasts(3590)
    await running.passes(11)
    with pytest.raises(DeadlinePassed):
        await running.task
    resume = running.sink.resume
    assert resume is not None
    resume()


async def test_engine_lost_after_the_end_mark_is_no_loss(lines: Lines) -> None:
    async def cut_at_the_end(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1) + DONE)
        call.close()

    running = Running(await lines.open(cut_at_the_end), is_stream=True)
    await running.task
    assert b"".join(running.sink.events).endswith(DONE)


async def test_stream_that_has_ended_is_not_ended_again_when_the_engine_holds_on(
    lines: Lines,
) -> None:
    async def hold_on(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1) + DONE)
        await call.wait_until_dropped()

    running = Running(await lines.open(hold_on, settings=SETTINGS), is_stream=True)
    await until(lambda: bool(running.sink.events))
    await running.outlasts(59)
    await running.passes(2)
    await running.task
    assert b"".join(running.sink.events).endswith(DONE)
    assert running.attempt.usage == Usage(3, 1)


async def test_answer_in_time_is_not_touched_by_timers_that_come_later(lines: Lines) -> None:
    line = await lines.open(answer_whole, settings=SETTINGS)
    running = Running(line, is_stream=False)
    await running.task
    for _ in range(20):
        line.pass_time(1000)
    assert running.sink.answer == ANSWER
    assert line.armed_timers() == 0
