"""A stream that waits is commented on, and when it is over nothing holds it."""

import weakref

import pytest
from tests.unit.ingress.written_answers import Connection

from penstock.clock import TimerWheel
from penstock.ingress.http.exchange import Exchange
from penstock.ingress.inference.api_shapers import ApiShaper
from penstock.ingress.inference.client_writer import AnswerTerms, ClientWriter, KeepaliveTimer
from penstock.records.price import Price
from penstock.records.request import RequestEnd
from penstock.testing import ManualClock


class Watched(ClientWriter):
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
    terms = AnswerTerms(headers=b"", price=Price())
    writer = Watched(exchange, terms, RequestEnd(), ApiShaper())
    held = weakref.ref(writer)
    KeepaliveTimer(writer, wheel, 1.0).arm()
    turn(wheel, clock, 3.5)
    assert connection.transport.written.count(b": keepalive") == 3
    writer.push(b"data: 1\n\n")
    turn(wheel, clock, 3.5)
    assert connection.transport.written.count(b": keepalive") == 3
    del writer, exchange
    # Without the collector, and while a timer of before may still be in the wheel.
    assert held() is None
