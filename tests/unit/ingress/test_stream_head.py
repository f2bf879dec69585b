"""A stream's head goes out with what there is of the stream, and alone where there is nothing."""

import pytest
from tests.unit.ingress.written_answers import Connection

from penstock.ingress.http.exchange import Exchange
from penstock.ingress.inference.api_shapers import ApiShaper, NativeShaper
from penstock.ingress.inference.client_writer import AnswerTerms, ClientWriter
from penstock.records.price import Price
from penstock.records.replica import ReplicaId
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage

EVENT = b"data: 1\n\n"
CHUNK = b"9\r\ndata: 1\n\n\r\n"


class Caller:
    """A client's request, and the writer of its answer."""

    def __init__(
        self,
        shaper: type[ApiShaper] = ApiShaper,
        *,
        speaks_chunked: bool = True,
        tells_cost: bool = False,
    ) -> None:
        connection = Connection()
        self.transport = connection.transport
        self.exchange = Exchange(connection, b"/", [])  # type: ignore[arg-type]
        terms = AnswerTerms(
            headers=b"x-request-id: 7\r\n",
            price=Price(),
            is_chunked=speaks_chunked,
            tells_cost=tells_cost,
        )
        self.end = RequestEnd()
        self.writer = ClientWriter(self.exchange, terms, self.end, shaper())

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
    caller.writer.push(EVENT)
    caller.writer.push(EVENT)
    caller.writer.finish(None)
    assert caller.heads_and_bodies() == [(True, CHUNK), (False, CHUNK), (False, b"0\r\n\r\n")]


def test_a_head_alone_goes_out_at_once() -> None:
    caller = Caller()
    caller.writer.begin()
    assert caller.heads_and_bodies() == [(True, b"")]
    caller.writer.begin()
    caller.writer.push(EVENT)
    assert caller.heads_and_bodies() == [(True, b""), (False, CHUNK)]


def test_a_comment_begins_a_stream() -> None:
    caller = Caller()
    for _ in range(2):
        caller.writer.comment()
    caller.writer.push(EVENT)
    comment = b"d\r\n: keepalive\n\n\r\n"
    assert caller.heads_and_bodies() == [(True, comment), (False, comment), (False, CHUNK)]


@pytest.mark.parametrize("shaper", [ApiShaper, NativeShaper])
def test_events_of_which_nothing_is_left_send_the_head(shaper: type[ApiShaper]) -> None:
    caller = Caller(shaper, tells_cost=True)
    # The end mark is kept for the cost; of the other event nothing has a native shape.
    caller.writer.push(b"data: [DONE]\n\n" if shaper is ApiShaper else b"data: {}\n\n")
    assert caller.heads_and_bodies() == [(True, b"")]


def test_http_1_0_has_no_chunks_and_ends_by_closing() -> None:
    caller = Caller(speaks_chunked=False)
    caller.writer.push(EVENT)
    caller.writer.push(EVENT)
    caller.writer.finish(None)
    assert caller.heads_and_bodies() == [(True, EVENT), (False, EVENT)]
    assert b"connection: close\r\n" in caller.transport.writes[0]
    assert b"transfer-encoding" not in caller.transport.writes[0]
    assert caller.transport.is_closed


def test_nothing_is_written_for_a_client_that_left() -> None:
    caller = Caller()
    caller.exchange.leave()
    caller.writer.push(EVENT)
    caller.writer.comment()
    caller.writer.finish(None)
    assert caller.transport.writes == []


def test_the_end_waits_for_the_cost() -> None:
    caller = Caller(tells_cost=True)
    caller.writer.push(EVENT + b"data: [DONE]\n\n")
    caller.writer.finish(Usage(1, 1, 0))
    assert b"".join(caller.transport.writes).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert b": cost-usd " in caller.transport.writes[1]


def test_a_stream_of_which_nothing_is_left_has_a_head_and_an_end() -> None:
    caller = Caller(NativeShaper)
    caller.writer.push(b"data: {}\n\n")
    caller.writer.finish(None)
    assert caller.heads_and_bodies() == [(True, b""), (False, b"0\r\n\r\n")]


def test_the_head_names_the_replica_of_the_last_try() -> None:
    caller = Caller()
    for replica in ("one", "two"):
        caller.end.replica = ReplicaId(replica)
    caller.writer.add_headers(b"x-more: 1\r\n")
    caller.writer.push(EVENT)
    assert b"x-penstock-replica: two\r\n" in caller.transport.writes[0]
    assert b"replica: one" not in caller.transport.writes[0]
    assert b"x-more: 1\r\n" in caller.transport.writes[0]
