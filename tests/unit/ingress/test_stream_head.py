"""A stream's head goes out with what there is of the stream, and alone where there is nothing."""

import pytest

from penstock.ingress.exchange import Exchange
from penstock.ingress.sinks import ClientSink, NativeSink, Shape
from penstock.records.price import Price
from penstock.records.replica import ReplicaId
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage

EVENT = b"data: 1\n\n"
CHUNK = b"9\r\ndata: 1\n\n\r\n"


class Transport:
    """Keeps each write by itself."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.is_closed = True


class Connection:
    def __init__(self) -> None:
        self.transport = Transport()

    def date_header(self) -> bytes:
        return b""

    def on_response_complete(self) -> None: ...


class Caller:
    """A client's request, and the sink of its answer."""

    def __init__(
        self,
        sink: type[ClientSink] = ClientSink,
        *,
        speaks_chunked: bool = True,
        tells_cost: bool = False,
    ) -> None:
        connection = Connection()
        self.transport = connection.transport
        self.exchange = Exchange(connection, b"/", [])  # type: ignore[arg-type]
        shape = Shape(
            headers=b"x-request-id: 7\r\n",
            price=Price(),
            is_chunked=speaks_chunked,
            tells_cost=tells_cost,
        )
        self.end = RequestEnd()
        self.sink = sink(self.exchange, shape, self.end)

    def heads_and_bodies(self) -> list[tuple[bool, bytes]]:
        """Of each write: whether it has a head, and what is behind that."""
        found = []
        for write in self.transport.writes:
            if write.startswith(b"HTTP/1.1 200 OK\r\n"):
                head, _, body = write.partition(b"\r\n\r\n")
                assert b"\r\nx-request-id: 7" in head
                found.append((True, body))
            else:
                found.append((False, write))
        return found


def test_head_and_first_events_are_one_write() -> None:
    caller = Caller()
    caller.sink.push(EVENT)
    caller.sink.push(EVENT)
    caller.sink.finish(None)
    assert caller.heads_and_bodies() == [(True, CHUNK), (False, CHUNK), (False, b"0\r\n\r\n")]


def test_a_head_alone_goes_out_at_once() -> None:
    caller = Caller()
    caller.sink.begin()
    assert caller.heads_and_bodies() == [(True, b"")]
    caller.sink.begin()
    caller.sink.push(EVENT)
    assert caller.heads_and_bodies() == [(True, b""), (False, CHUNK)]


def test_a_comment_begins_a_stream() -> None:
    caller = Caller()
    for _ in range(2):
        caller.sink.comment()
    caller.sink.push(EVENT)
    comment = b"d\r\n: keepalive\n\n\r\n"
    assert caller.heads_and_bodies() == [(True, comment), (False, comment), (False, CHUNK)]


@pytest.mark.parametrize("sink", [ClientSink, NativeSink])
def test_events_of_which_nothing_is_left_send_the_head(sink: type[ClientSink]) -> None:
    caller = Caller(sink, tells_cost=True)
    # The end mark is kept for the cost; of the other event nothing has a native shape.
    caller.sink.push(b"data: [DONE]\n\n" if sink is ClientSink else b"data: {}\n\n")
    assert caller.heads_and_bodies() == [(True, b"")]


def test_http_1_0_has_no_chunks_and_ends_by_closing() -> None:
    caller = Caller(speaks_chunked=False)
    caller.sink.push(EVENT)
    caller.sink.push(EVENT)
    caller.sink.finish(None)
    assert caller.heads_and_bodies() == [(True, EVENT), (False, EVENT)]
    assert b"connection: close\r\n" in caller.transport.writes[0]
    assert b"transfer-encoding" not in caller.transport.writes[0]
    assert caller.transport.is_closed


def test_nothing_is_written_for_a_client_that_left() -> None:
    caller = Caller()
    caller.exchange.leave()
    caller.sink.push(EVENT)
    caller.sink.comment()
    caller.sink.finish(None)
    assert caller.transport.writes == []


def test_the_end_waits_for_the_cost() -> None:
    caller = Caller(tells_cost=True)
    caller.sink.push(EVENT + b"data: [DONE]\n\n")
    caller.sink.finish(Usage(1, 1, 0))
    assert b"".join(caller.transport.writes).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert b": cost-usd " in caller.transport.writes[1]


def test_a_stream_of_which_nothing_is_left_has_a_head_and_an_end() -> None:
    caller = Caller(NativeSink)
    caller.sink.push(b"data: {}\n\n")
    caller.sink.finish(None)
    assert caller.heads_and_bodies() == [(True, b""), (False, b"0\r\n\r\n")]


def test_the_head_names_the_replica_of_the_last_try() -> None:
    caller = Caller()
    for replica in ("one", "two"):
        caller.end.replica = ReplicaId(replica)
    caller.sink.add_headers(b"x-more: 1\r\n")
    caller.sink.push(EVENT)
    assert b"x-penstock-replica: two\r\n" in caller.transport.writes[0]
    assert b"replica: one" not in caller.transport.writes[0]
    assert b"x-more: 1\r\n" in caller.transport.writes[0]
