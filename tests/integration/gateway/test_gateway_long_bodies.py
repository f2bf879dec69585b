"""Long bodies go past the HTTP parser: whatever surrounds them on the connection is still read."""

import json
import time

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, prompt
from tests.integration.cells.raw_client import RawClient, post_bytes

_V1 = "/v1/chat/completions"
_LONG = 300_000


def _request(cell: Cell, text: str, **fields: object) -> bytes:
    body = json.dumps({"model": CHAT, "messages": prompt(text=text), **fields}).encode()
    return post_bytes(_V1, body, cell.key)


def _prompt_tokens(client: RawClient) -> int:
    answer = client.read_answer()
    assert answer.status == 200, answer.body
    return int(answer.json()["usage"]["prompt_tokens"])


@pytest.fixture
def known(cell: Cell) -> tuple[int, int]:
    """Prompt tokens of a short request and of a long one, each sent by itself."""
    with RawClient(cell.gateway.port) as client:
        client.send(_request(cell, "short"))
        short = _prompt_tokens(client)
        client.send(_request(cell, "word " * (_LONG // 5)))
        return short, _prompt_tokens(client)


@pytest.mark.parametrize("piece", [1_000_000, 65_536, 7_001])
def test_what_comes_behind_a_long_body_is_the_next_request(
    cell: Cell, known: tuple[int, int], piece: int
) -> None:
    short, long = known
    assert long > 10 * short
    long_request = _request(cell, "word " * (_LONG // 5))
    data = long_request + _request(cell, "short") + long_request + _request(cell, "short")
    with RawClient(cell.gateway.port) as client:
        for at in range(0, len(data), piece):
            client.send(data[at : at + piece])
        assert [_prompt_tokens(client) for _ in range(4)] == [long, short, long, short]
        # The connection is as good as new.
        client.send(_request(cell, "short"))
        assert _prompt_tokens(client) == short


def test_a_long_body_behind_a_stream_waits_for_its_turn(cell: Cell, known: tuple[int, int]) -> None:
    _, long = known
    stream = _request(cell, "hello", stream=True)
    with RawClient(cell.gateway.port) as client:
        client.send(stream + _request(cell, "word " * (_LONG // 5)))
        first = client.read_answer()
        assert first.body.endswith(b"data: [DONE]\n\n")
        assert _prompt_tokens(client) == long


def test_a_client_that_leaves_in_the_middle_of_a_long_body_leaves_nothing(cell: Cell) -> None:
    request = _request(cell, "word " * (_LONG // 5))
    for _ in range(3):
        with RawClient(cell.gateway.port) as client:
            client.send(request[: len(request) // 2])
            time.sleep(0.05)
    with RawClient(cell.gateway.port) as client:
        client.send(_request(cell, "short"))
        assert _prompt_tokens(client) > 0
