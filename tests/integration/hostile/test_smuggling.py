"""Request smuggling: no hidden request runs, and what follows on a connection is read as itself."""

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.raw_client import RawAnswer, RawClient
from tests.integration.hostile.echo_engine import EchoEngine
from tests.integration.hostile.hostile_caller import Caller
from tests.integration.hostile.smuggling_cases import CASES, Parts

# The gateway gives up on half a request sooner than this, and says so.
_SETTINGS = {"ingress.header_seconds": 0.5, "ingress.body_grace_seconds": 0.5}
_SECONDS = 15.0
_SOON_SECONDS = 0.3


@pytest.fixture(scope="module")
def echoing(cells: CellFactory) -> Iterator[tuple[Cell, EchoEngine]]:
    with cells.open(_SETTINGS) as cell, EchoEngine() as engine:
        cell.set_up()
        cell.enroll(engine.url, CHAT)
        cell.wait_for_replicas(CHAT, 1)
        yield cell, engine


@pytest.fixture
def cell(echoing: tuple[Cell, EchoEngine]) -> Cell:
    return echoing[0]


@pytest.fixture
def engine(echoing: tuple[Cell, EchoEngine]) -> EchoEngine:
    echoing[1].received.clear()
    return echoing[1]


@pytest.fixture
def parts(cell: Cell) -> Parts:
    return Parts(Caller(cell.account, cell.key))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_smuggled(cell: Cell, engine: EchoEngine, parts: Parts, name: str) -> None:
    answers = _send(cell.gateway.port, CASES[name](parts), parts.next)
    cell.wait_until_idle()
    words = engine.words()
    assert set(words) <= {"own", "next"}, words
    assert len(words) == len(set(words)), words
    assert engine.malformed == []
    said = [_said(answer) for answer in answers]
    assert [each for each in said if each in ("own", "next")] == words
    if answers and not _is_last(answers[0]):
        assert said[-1] == "next", "the connection stayed open, and the next request was not served"


def test_a_second_request_behind_a_whole_one_does_run(
    cell: Cell, engine: EchoEngine, parts: Parts
) -> None:
    """So the cases above would show one that was smuggled."""
    whole = parts.head(b"content-length: %d" % len(parts.own)) + parts.own
    _send(cell.gateway.port, whole + parts.hidden, parts.next)
    cell.wait_until_idle()
    assert engine.words()[:2] == ["own", "hidden"]


def _send(port: int, data: bytes, following: bytes) -> list[RawAnswer]:
    """All answers: to the data, and to the request that follows if the connection is open then."""
    answers: list[RawAnswer] = []
    with RawClient(port, seconds=_SOON_SECONDS) as client:
        client.send(data)
        # Without an answer so soon, the gateway waits for the rest of a request.
        with suppress(TimeoutError):
            if not _read(client, answers):
                return answers
        client.socket.settimeout(_SECONDS)
        with suppress(ConnectionError):
            client.send(following)
        while _read(client, answers) and _said(answers[-1]) != "next":
            pass
    return answers


def _read(client: RawClient, answers: list[RawAnswer]) -> bool:
    """Add the next answer, if there is one; whether the connection is open after it."""
    try:
        while (answer := client.read_answer()).status == 100:
            pass
    except ConnectionError:
        return False
    answers.append(answer)
    return not _is_last(answer)


def _is_last(answer: RawAnswer) -> bool:
    return answer.headers.get("connection", "").lower() == "close"


def _said(answer: RawAnswer) -> str:
    """The word that a 200 of the engine echoes; otherwise the status."""
    if answer.status != 200 or b'"choices"' not in answer.body:
        return str(answer.status)
    return str(json.loads(answer.body)["choices"][0]["message"]["content"].split()[0])
