"""One request and its answer: what may be written in which state."""

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.ingress.written_answers import Connection

from penstock.ingress.http.exchange import Exchange, ExchangeState


def exchange_on(connection: Connection) -> Exchange:
    return Exchange(connection, b"/", [])  # type: ignore[arg-type]


def answer(exchange: Exchange) -> None:
    exchange.answer(200, b"", b"{}")


def start(exchange: Exchange) -> None:
    exchange.start_stream(b"", b"data: 1\n\n", is_chunked=True)


def write(exchange: Exchange) -> None:
    exchange.write(b"data: 2\n\n")


Act = Callable[[Exchange], None]
END, LEAVE, BODY = Exchange.end_stream, Exchange.leave, Exchange.end_body


@pytest.mark.parametrize(
    ("acts", "state", "writes"),
    [
        ([], ExchangeState.READING, 0),
        ([BODY], ExchangeState.WHOLE, 0),
        ([BODY, answer], ExchangeState.COMPLETE, 1),
        ([BODY, start, write, END], ExchangeState.COMPLETE, 3),
        # Refused while its body comes; that may still come to its end.
        ([answer, BODY], ExchangeState.COMPLETE, 1),
        ([BODY, start, BODY], ExchangeState.STARTED, 1),
        # One answer each, and nothing behind it.
        ([BODY, answer, answer, start, write, END], ExchangeState.COMPLETE, 1),
        ([BODY, start, answer, start], ExchangeState.STARTED, 1),
        ([BODY, start, END, write, END, answer], ExchangeState.COMPLETE, 2),
        ([BODY, write, END], ExchangeState.WHOLE, 0),
        # Nothing is written for a client that left.
        ([LEAVE, BODY, answer, start, write, END], ExchangeState.GONE, 0),
        ([BODY, start, LEAVE, write, END, answer], ExchangeState.GONE, 1),
        # What was answered stays answered.
        ([BODY, answer, LEAVE], ExchangeState.COMPLETE, 1),
    ],
)
def test_what_is_written_depends_on_the_state(
    acts: list[Act], state: ExchangeState, writes: int
) -> None:
    connection = Connection()
    exchange = exchange_on(connection)
    for act in acts:
        act(exchange)
    assert exchange._state is state
    assert len(connection.transport.writes) == writes
    assert exchange.response_complete is (state is ExchangeState.COMPLETE)
    assert exchange.disconnected is (state is ExchangeState.GONE)
    assert exchange.is_started is (state is ExchangeState.STARTED)
    assert exchange.is_whole is (state is ExchangeState.WHOLE)


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_client_that_leaves_cancels_what_is_not_answered(is_answered: bool) -> None:
    exchange = exchange_on(Connection())
    may_end = asyncio.Event()
    exchange.task = asyncio.ensure_future(_wait(may_end))
    task = exchange.task
    exchange.end_body()
    if is_answered:
        answer(exchange)
    exchange.leave()
    may_end.set()
    await asyncio.wait([task])
    assert task.cancelled() is not is_answered


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def test_what_uvicorn_says_of_a_lost_connection_is_heard() -> None:
    exchange = exchange_on(Connection())
    exchange.disconnected = True
    assert exchange.disconnected
