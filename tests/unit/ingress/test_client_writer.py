"""One client stream made of several engine answers, and a stored copy of what the client got."""

import pytest
from tests.unit.ingress.written_answers import Connection, unchunked

from penstock.ingress.http.exchange import Exchange
from penstock.ingress.inference.api_shapers import ApiShaper, NativeShaper
from penstock.ingress.inference.client_writer import AnswerTerms, ClientWriter
from penstock.records.price import Price
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage
from penstock.serving.shaping import Joiner, Steps

DONE = b"data: [DONE]\n\n"
CHUNKS = [
    b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % number for number in range(6)
]


class Answered:
    """A client whose answer is joined from engine answers."""

    def __init__(self, api: ApiShaper, *, tells_cost: bool = False) -> None:
        self._connection = Connection()
        exchange = Exchange(self._connection, b"/", [])  # type: ignore[arg-type]
        shaper = Steps(Joiner(ApiShaper().find_end), api)
        terms = AnswerTerms(headers=b"", price=Price(), tells_cost=tells_cost)
        self.writer = ClientWriter(exchange, terms, RequestEnd(), api, shaper)

    def body(self) -> bytes:
        return unchunked(self._connection.transport.written)


@pytest.mark.parametrize("api", [ApiShaper, NativeShaper])
def test_two_engine_answers_are_one_stream_and_its_copy_is_the_same(api: type[ApiShaper]) -> None:
    joined, alone = Answered(api()), Answered(api())
    joined.writer.begin()
    for part in (*CHUNKS[:3], DONE, *CHUNKS[3:5], CHUNKS[5] + DONE):
        joined.writer.push(part)
    joined.writer.finish(None)
    for part in (*CHUNKS, DONE):
        alone.writer.push(part)
    alone.writer.finish(None)
    assert joined.body() == alone.body()
    assert joined.body().count(DONE) == 1


def test_the_cost_of_a_joined_stream_stands_before_its_one_end() -> None:
    answered = Answered(ApiShaper(), tells_cost=True)
    for part in (CHUNKS[0], DONE, CHUNKS[1] + DONE):
        answered.writer.push(part)
    answered.writer.finish(Usage(1, 1, 0))
    assert answered.body() == b"".join(CHUNKS[:2]) + b": cost-usd 0.000000000\n\n" + DONE
