"""A caller's own request id is a label: echoed and logged, never ours (rule 1)."""

import pytest
from tests.integration.cells.gateway_cell import Cell, chat_body

CHAT_PATH = "/v1/chat/completions"


@pytest.mark.parametrize("model", [None, "@cf/no/such"], ids=["answer", "error"])
def test_callers_id_is_echoed_beside_ours(cell: Cell, model: str | None) -> None:
    body = chat_body(model) if model else chat_body()
    answer = cell.post(CHAT_PATH, body, headers={"x-request-id": "mine-1"})
    assert answer.headers["x-caller-request-id"] == "mine-1"
    assert answer.headers["x-request-id"] != "mine-1"


def test_no_header_of_an_answer_can_be_forged_by_it(cell: Cell) -> None:
    answer = cell.post(CHAT_PATH, chat_body(), headers={"x-request-id": "a\tb: c"})
    assert answer.headers["x-caller-request-id"] == "ab: c"
