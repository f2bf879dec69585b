"""What an answer cost is said on the answer: in a header, or in a comment of a stream that asks."""

import json
import re

import pytest
from tests.integration.cells.gateway_cell import CHAT, NATIVE, Cell, chat_body, events_of
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.ledger_rows import rows_of

from penstock.metering import usd
from penstock.policy import AccountBook
from penstock.store import Store
from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_COMMENT = re.compile(r"^: cost-usd (\d+\.\d{9})\n\ndata: \[DONE\]\n\n\Z", re.MULTILINE)
# The test models' prices: $0.60 and $3 per million tokens.
_INPUT, _OUTPUT = 600, 3000


def _expected(usage: dict[str, int]) -> str:
    nano = usage["prompt_tokens"] * _INPUT + usage["completion_tokens"] * _OUTPUT
    return f"{nano // 10**9}.{nano % 10**9:09d}"


@pytest.mark.parametrize("model", [CHAT, NATIVE])
def test_an_answer_that_is_not_streamed_says_its_cost_in_a_header(
    cell: Cell, engine: ScriptedEngine, model: str
) -> None:
    del engine
    answer = cell.chat(chat_body(model))
    assert answer.headers["x-penstock-cost-usd"] == _expected(answer.json()["usage"])
    answer = cell.run_model(model, chat_body(model))
    assert answer.headers["x-penstock-cost-usd"] == _expected(answer.json()["result"]["usage"])


@pytest.mark.parametrize("model", [CHAT, NATIVE])
@pytest.mark.parametrize("shape", [{}, {"glue": True}, {"split": 5, "split_pause": 0.0}])
def test_a_stream_that_asks_gets_a_comment_before_its_end(
    cell: Cell, model: str, shape: dict[str, object]
) -> None:
    body = chat_body(model, {"tokens": 5, **shape}, stream=True)
    whole = cell.chat(chat_body(model, {"tokens": 5, **shape}))
    for path in (_V1, cell.path(f"run/{model}")):
        plain = cell.post(path, body)
        asked = cell.post(path, body, headers={"x-penstock-cost": "1"})
        found = _COMMENT.search(asked.text)
        assert found is not None
        assert found[1] == whole.headers["x-penstock-cost-usd"]
        # To a client that skips comments nothing is different.
        assert len(events_of(asked.text)) == len(events_of(plain.text))
        assert "cost-usd" not in plain.text
        assert "x-penstock-cost-usd" not in plain.headers


def test_cost_stands_in_usage_for_who_asks_for_it_there(cell: Cell) -> None:
    asked = {"x-penstock-cost": "usage"}
    whole = cell.post(_V1, chat_body(script={"tokens": 5}), headers=asked)
    told = float(whole.headers["x-penstock-cost-usd"])
    assert whole.json()["usage"]["cost"] == told
    body = chat_body(script={"tokens": 5}, stream=True, stream_options={"include_usage": True})
    counts = [
        json.loads(events_of(cell.post(_V1, body, headers=headers).text)[-2])["usage"]
        for headers in (asked, {})
    ]
    assert counts[0] == {**counts[1], "cost": told}
    assert "cost" not in counts[1]


@pytest.mark.parametrize("is_on", [True, False])
def test_account_may_have_its_cost_in_every_answer(cell: Cell, is_on: bool) -> None:
    async def switch(store: Store) -> None:
        await AccountBook(store).set_usage_cost(cell.account, is_on)

    cell.run(switch)
    eventually(lambda: ("cost" in cell.chat(chat_body()).json()["usage"]) is is_on, 6)


def test_without_usage_the_cost_is_that_of_the_estimate(cell: Cell) -> None:
    answer = cell.chat(chat_body(script={"no_usage": True}))
    assert answer.status_code == 200
    told = answer.headers["x-penstock-cost-usd"]
    body = chat_body(script={"no_usage": True}, stream=True)
    asked = cell.post(_V1, body, headers={"x-penstock-cost": "1"})
    assert asked.text.endswith("data: [DONE]\n\n")
    found = _COMMENT.search(asked.text)
    assert found is not None
    rows = [rows_of(cell, each.headers["x-request-id"])[0] for each in (answer, asked)]
    assert [usd(row["charge_nanousd"]) for row in rows] == [told, found[1]]
    assert [row["charge_reason"] for row in rows] == ["estimated"] * 2
    assert all(row["output_tokens"] for row in rows)


@pytest.mark.parametrize(
    "lie", [{"completion_tokens": -4}, {"prompt_tokens": 10**15}, {"prompt_tokens": None}]
)
def test_whatever_an_engine_counts_there_is_an_answer(cell: Cell, lie: dict[str, object]) -> None:
    for stream in (False, True):
        body = chat_body(script={"lie_usage": lie}, stream=stream)
        answer = cell.post(_V1, body, headers={"x-penstock-cost": "1"})
        assert answer.status_code in {200, 502}
        if stream:
            assert answer.text.endswith("data: [DONE]\n\n")


def test_an_error_costs_nothing(cell: Cell) -> None:
    for script in ({"status": 500}, {"status": 400}):
        answer = cell.chat(chat_body(script=script))
        assert "x-penstock-cost-usd" not in answer.headers
