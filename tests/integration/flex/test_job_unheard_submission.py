"""A submission whose answer was lost to an outage: who is told to try again has no second job."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually

_WAIT_SECONDS = 3


@pytest.fixture
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({"store.transaction_seconds": 1.0}) as cell:
        cell.set_up(CHAT)
        yield cell


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "mine"}], ids=["no_key", "key"])
def test_a_job_whose_caller_is_told_to_try_again_does_not_run_for_nobody(
    cell: Cell, headers: dict[str, str]
) -> None:
    """With an idempotency key the caller finds it when it tries again, so that one stays."""
    with ThreadPoolExecutor() as threads, psycopg.connect(cell.dsn) as connection:
        asked = threads.submit(_submit, cell, headers)
        eventually(lambda: _states(cell) == ["queued"])
        # As in an outage: the job is there, and nobody can look for it.
        connection.execute("lock table jobs in access exclusive mode")
        answer = asked.result()
        connection.rollback()
    assert answer.status_code == 503, answer.text
    assert answer.headers["x-should-retry"] == "true"
    if not headers:
        eventually(lambda: _states(cell) == ["cancelled"])
        return
    again = _submit(cell, headers)
    assert again.status_code == 202, again.text
    assert _states(cell) == ["queued"]


def _submit(cell: Cell, headers: dict[str, str]) -> httpx.Response:
    prefer = {"prefer": f"respond-async, wait={_WAIT_SECONDS}"}
    return cell.post("/v1/chat/completions", chat_body(CHAT), headers={**prefer, **headers})


def _states(cell: Cell) -> list[str]:
    with psycopg.connect(cell.dsn, autocommit=True) as connection:
        return [state for (state,) in connection.execute("select state from jobs").fetchall()]
