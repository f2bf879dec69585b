"""Standard error is a pipe that nobody reads: the gateway drops log lines and goes on serving."""

import os
from collections.abc import Iterator

import pytest
from tests.integration.cells.gateway_cell import CHAT, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually, fetch

DROPPED = "penstock_log_lines_dropped_total"


@pytest.fixture
def unread_pipe() -> Iterator[int]:
    """The end to write into, of a pipe that stays open and is never read."""
    read_end, write_end = os.pipe()
    yield write_end
    os.close(read_end)
    os.close(write_end)


def test_a_gateway_whose_log_is_not_read_answers_every_request_and_counts_dropped_lines(
    cells: CellFactory, unread_pipe: int
) -> None:
    with cells.open({"telemetry.log_buffer_bytes": 2**16}) as cell:
        cell.gateway.stderr = unread_pipe
        cell.set_up(CHAT)
        for _ in range(1100):
            assert cell.chat(chat_body(max_tokens=1)).status_code == 200
        assert fetch(cell.gateway.port, "/healthz")[0] == 200
        eventually(lambda: cell.gateway.metric(DROPPED) > 0)
        before = cell.gateway.metric(DROPPED)
        # More than the buffer holds: it may have had room for a while, as lines come in pieces.
        for _ in range(500):
            assert cell.chat(chat_body(max_tokens=1)).status_code == 200
        eventually(lambda: cell.gateway.metric(DROPPED) > before)
        # A full pipe does not hold up its end either.
        cell.gateway.terminate()
        assert cell.gateway.wait() in (0, -15)
