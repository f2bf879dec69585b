"""A stream's head and the sink: told alone where it comes alone, else with the read's events."""

from typing import TYPE_CHECKING, cast

import pytest
from tests.unit.engine.engine_line import HEAD_BYTES_MAX, Collector, Notes
from tests.unit.engine.tiny_engine import STREAM_HEAD

from penstock.clock import TimerWheel
from penstock.engine.attempt import Attempt, AttemptLimits
from penstock.engine.connection import Connection, IdleCallback
from penstock.engine.event_stream import EventStream, Fingerprint
from penstock.engine.output_estimate import OutputEstimate
from penstock.engine.settings import EngineSettings
from penstock.errors import EngineFailed, EngineLost, Error
from penstock.records.request import Api
from penstock.testing import ManualClock

if TYPE_CHECKING:
    import asyncio

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
LAST = b"0\r\n\r\n"


class _Transport:
    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool:
        return False


class _Pool(IdleCallback):
    def idle(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...


class _Sink(Collector):
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []

    def begin(self) -> None:
        self.told.append("begin")

    def push(self, events: bytes) -> None:
        self.told.append(events)

    def push_last(self, events: bytes) -> None:
        self.told += [events]


class Asked:
    """A streamed request on a connection, whose answer the test says."""

    def __init__(self) -> None:
        clock = ManualClock()
        line = AttemptLimits(EngineSettings(event_bytes_max=1024), TimerWheel(clock), clock)
        estimate = OutputEstimate(0, 0, 0)
        stream = EventStream(
            wants_usage=False,
            wants_continuous_usage=False,
            choices=1,
            fingerprint=Fingerprint(),
            event_bytes_max=1024,
            estimate=estimate,
        )
        self.sink = _Sink()
        self.attempt = Attempt(line, Api.CHAT, self.sink, Notes(), stream, estimate)
        self.connection = Connection(_Pool(), HEAD_BYTES_MAX)
        self.connection.connection_made(cast("asyncio.BaseTransport", _Transport()))
        self.finish = self.attempt.start(self.connection, [b"POST / HTTP/1.1\r\n\r\n"])

    def hear(self, *reads: bytes) -> list[object]:
        for read in reads:
            self.connection.data_received(read)
        return self.sink.told

    def error(self) -> type[Error]:
        assert self.finish.done()
        with pytest.raises(Error) as raised:
            self.attempt.check()
        return raised.type


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def test_a_head_alone_is_told_at_once() -> None:
    asked = Asked()
    assert asked.hear(STREAM_HEAD) == ["begin"]
    assert asked.hear(chunk(EVENT)) == ["begin", EVENT]
    assert asked.hear(chunk(DONE) + LAST) == ["begin", EVENT, DONE]
    asked.attempt.check()


async def test_a_head_with_half_an_event_is_told_at_once() -> None:
    asked = Asked()
    assert asked.hear(STREAM_HEAD + chunk(EVENT)[:20]) == ["begin"]
    assert asked.hear(chunk(EVENT)[20:]) == ["begin", EVENT]


async def test_events_that_come_with_the_head_are_told_with_it() -> None:
    asked = Asked()
    assert asked.hear(STREAM_HEAD + chunk(EVENT) + chunk(EVENT)) == [EVENT + EVENT]
    assert asked.hear(chunk(DONE) + LAST) == [EVENT + EVENT, DONE]
    asked.attempt.check()


async def test_a_head_in_two_reads_is_told_when_it_is_there() -> None:
    asked = Asked()
    assert asked.hear(STREAM_HEAD[:30]) == []
    assert asked.hear(STREAM_HEAD[30:]) == ["begin"]


@pytest.mark.parametrize("bad", [b"nonsense\r\n", chunk(b"data: " + b"x" * 2000)])
async def test_a_stream_that_fails_with_its_first_read_has_begun(bad: bytes) -> None:
    asked = Asked()
    assert asked.hear(STREAM_HEAD + bad) == ["begin"]
    assert asked.error() is EngineFailed


async def test_an_engine_that_dies_behind_its_head_or_its_end() -> None:
    asked = Asked()
    asked.hear(STREAM_HEAD)
    asked.connection.connection_lost(None)
    assert asked.error() is EngineLost
    asked = Asked()
    assert asked.hear(STREAM_HEAD + LAST) == ["begin"]
    assert asked.error() is EngineLost


async def test_what_is_no_stream_begins_none() -> None:
    asked = Asked()
    told = asked.hear(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert told == []
    assert asked.error() is EngineFailed


async def test_an_end_that_comes_alone_is_not_waited_for() -> None:
    asked = Asked()
    assert asked.hear(STREAM_HEAD + chunk(EVENT) + chunk(DONE)) == [EVENT + DONE]
    assert asked.hear(LAST) == [EVENT + DONE]
    asked.attempt.check()


async def test_an_end_without_its_mark_may_yet_be_an_error() -> None:
    asked = Asked()
    assert asked.hear(STREAM_HEAD + chunk(EVENT) + LAST) == [EVENT]
    assert asked.error() is EngineLost
    asked = Asked()
    error = b'data: {"error":{"message":"no"}}\n\n'
    assert asked.hear(STREAM_HEAD + chunk(error) + chunk(DONE) + LAST) == [error + DONE]
    asked.attempt.check()
    assert asked.attempt.said_error


async def test_who_watches_hears_of_the_first_events_when_the_sink_has_them() -> None:
    asked = Asked()
    asked.attempt.on_first_data = lambda _: asked.sink.told.append("first")
    asked.hear(STREAM_HEAD, chunk(EVENT), chunk(EVENT))
    assert asked.sink.told == ["begin", EVENT, "first", EVENT]


async def test_what_came_with_the_end_mark_is_told_though_nonsense_came_behind_it() -> None:
    asked = Asked()
    told = asked.hear(STREAM_HEAD + chunk(EVENT) + chunk(DONE) + b"\r\nnonsense")
    assert told == [EVENT + DONE]
    asked.attempt.check()
