"""Decisions of a real gateway: written before a client sees their effect, read by who may."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.batch_cell import QUICK, line, sdk, start_batch
from tests.integration.cells.gateway_cell import CHAT, PAIR, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.contracts.contract_cell import (
    REFRESH,
    contract,
    decided,
    decision_rows,
    in_force,
)
from tests.integration.contracts.decision_worker import verify

_V1 = "/v1/chat/completions"
_REVIEW = contract(
    "review",
    "output = { tokens_max = 50 }\nprompt = { tokens_max = 2000 }",
    f'default = "{CHAT}"\nclass = {{ label = "{PAIR}" }}',
)
_OTHERS = contract("others", 'accounts = ["' + "0" * 32 + '"]')
_WATCH = contract("watch", 'mode = "observe"\noutput = { tokens_max = 50 }')


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({**REFRESH, **QUICK, "metering.drain_seconds": 0.1}) as cell:
        cell.set_up(CHAT, PAIR)
        in_force(cell, _REVIEW, _OTHERS, _WATCH)
        yield cell


def _ask(cell: Cell, workflow: str, model: str = CHAT, **fields: Any) -> Any:
    body = chat_body(model, **fields)
    return cell.post(_V1, body, headers={"x-penstock-workflow": workflow})


def test_what_a_contract_changed_is_a_row(cell: Cell) -> None:
    answer = _ask(cell, "review", max_tokens=500)
    assert answer.headers["x-penstock-applied"] == "output=50"
    [row] = decided(cell, answer.headers["x-request-id"])
    assert (row["kind"], row["verdict"], row["is_observed"]) == ("output", "change", False)
    assert (row["contract"], row["workflow"]) == ("review@1", "review")
    assert (row["account"], row["key"]) == (cell.account, cell.key_id)
    assert row["facts"] == {"output": "50"}


def test_a_request_that_is_not_changed_has_no_row(cell: Cell) -> None:
    untouched = _ask(cell, "review", max_tokens=5).headers["x-request-id"]
    decided(cell, _ask(cell, "review", max_tokens=500).headers["x-request-id"])
    assert decision_rows(cell, {"request": untouched}) == []


@pytest.mark.parametrize(
    ("workflow", "model", "content", "kind", "code"),
    [
        ("review", "auto", "long " * 5000, "prompt", "prompt_over_contract"),
        ("review", "@cf/test/plain", "hi", "model", "model_not_allowed"),
        ("others", CHAT, "hi", "workflow", "workflow_not_allowed"),
    ],
)
def test_what_a_contract_refused_is_a_row(
    cell: Cell, workflow: str, model: str, content: str, kind: str, code: str
) -> None:
    answer = _ask(cell, workflow, model, messages=[{"role": "user", "content": content}])
    assert answer.json()["error"]["code"] == code
    [row] = decided(cell, answer.headers["x-request-id"])
    assert (row["kind"], row["verdict"], row["reason"]) == (kind, "deny", code)
    assert row["contract"] == f"{workflow}@1"


def test_what_would_have_been_done_is_marked_as_observed(cell: Cell) -> None:
    answer = _ask(cell, "watch", max_tokens=500)
    [row] = decided(cell, answer.headers["x-request-id"])
    assert (row["kind"], row["verdict"], row["is_observed"]) == ("output", "change", True)


def test_lines_of_a_batch_have_theirdecision_rows(cell: Cell) -> None:
    batches = {"workflow": "review", "since": "1h", "limit": 1000}
    before = decision_rows(cell, batches)
    body = {"metadata": {"workflow": "review"}, "messages": [{"role": "user", "content": "hi"}]}
    changed = line("a", body={**body, "model": CHAT, "max_tokens": 500})
    refused = line("b", body={**body, "model": "@cf/test/plain"})
    start_batch(sdk(cell), changed, refused)
    eventually(lambda: len(decision_rows(cell, batches)) == len(before) + 2)
    new = decision_rows(cell, batches)[:2]
    assert {(row["kind"], row["verdict"]) for row in new} == {
        ("output", "change"),
        ("model", "deny"),
    }


def test_a_key_sees_the_decisions_of_its_own_account_only(cell: Cell) -> None:
    answer = _ask(cell, "review", max_tokens=500)
    request = answer.headers["x-request-id"]
    decided(cell, request)
    assert len(decided(cell, request, cell.operator_key)) == 1
    _, _, stranger = cell.add_account("stranger")

    assert decision_rows(cell, {"request": request}, stranger) == []
    refused = cell.client.get(
        f"{cell.gateway.url}/v1/decisions",
        params={"account": cell.account},
        headers={"authorization": f"Bearer {stranger}"},
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


def test_no_row_has_a_word_of_a_prompt(cell: Cell) -> None:
    secret = "wandering-albatross"
    answer = _ask(cell, "review", max_tokens=500, messages=[{"role": "user", "content": secret}])
    rows = decided(cell, answer.headers["x-request-id"])
    assert secret not in json.dumps(rows)


def test_the_chain_of_a_gateway_that_was_killed_goes_on_in_the_next_ones(cell: Cell) -> None:
    answer = _ask(cell, "review", max_tokens=500)
    os.kill(cell.gateway.pid, signal.SIGKILL)
    cell.gateway.wait()
    cell.gateway.start()
    decided(cell, answer.headers["x-request-id"])
    assert cell.run(verify).faults == []
