"""A stream that waits is commented on, and when it is over nothing holds it."""

import weakref

import pytest

from penstock.clock import TimerWheel
from penstock.ingress.exchange import Exchange
from penstock.ingress.sinks import ClientSink, HeldOpen, Shape
from penstock.records.price import Price
from penstock.records.request import RequestEnd
from penstock.testing import ManualClock


class Transport:
    """Keeps what was written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None: ...


class Connection:
    def __init__(self) -> None:
        self.transport = Transport()

    def date_header(self) -> bytes:
        return b""

    def on_response_complete(self) -> None: ...


class Watched(ClientSink):
    """One that a weak reference may be made to."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def turn(wheel: TimerWheel, clock: ManualClock, seconds: float) -> None:
    for _ in range(round(seconds * 10)):
        clock.advance(0.1)
        wheel.advance()


def test_comments_come_until_the_first_event_and_then_nothing_holds_the_stream(
    clock: ManualClock,
) -> None:
    wheel, connection = TimerWheel(clock), Connection()
    exchange = Exchange(connection, b"/", [])  # type: ignore[arg-type]
    sink = Watched(exchange, Shape(headers=b"", price=Price()), RequestEnd())
    held = weakref.ref(sink)
    HeldOpen(sink, wheel, 1.0).arm()
    turn(wheel, clock, 3.5)
    assert connection.transport.written.count(b": keepalive") == 3
    sink.push(b"data: 1\n\n")
    turn(wheel, clock, 3.5)
    assert connection.transport.written.count(b": keepalive") == 3
    del sink, exchange
    # Without the collector, and while a timer of before may still be in the wheel.
    assert held() is None
