"""Client scripts of the acceptance suite, and curl, against real weights."""

import json

import pytest
from tests.acceptance.client_cell import SMOLLM, ClientCell
from tests.acceptance.client_checks import check_usage
from tests.acceptance.client_run import run_python, run_shell
from tests.engine.real_cell import Cell

from penstock.clock import new_id

CURL = """\
curl -sS "$PENSTOCK_URL/v1/chat/completions" -H "Authorization: Bearer $PENSTOCK_KEY" -d "$BODY"
"""
SCRIPT = "openai_chat.py"


@pytest.fixture
def client_cell(cell: Cell) -> ClientCell:
    return ClientCell(cell)


def test_a_text_comes_with_its_usage(client_cell: ClientCell) -> None:
    told = run_python(SCRIPT, client_cell, case="text", model=SMOLLM)
    assert told["text"]
    check_usage(told["usage"])


def test_a_stream_comes_piece_by_piece(client_cell: ClientCell) -> None:
    told = run_python(SCRIPT, client_cell, case="stream", model=SMOLLM)
    assert len(told["pieces"]) > 1
    assert told["usage"]["output"] <= 16
    check_usage(told["usage"])


def test_the_second_turn_finds_cached_tokens(client_cell: ClientCell) -> None:
    session = f"ses_{new_id()}"
    turns = run_python(SCRIPT, client_cell, case="conversation", model=SMOLLM, session=session)
    first, second = turns
    assert first["cached"] == 0
    assert second["cached"] > 0


def test_curl_gets_a_stream_that_ends_with_usage(client_cell: ClientCell) -> None:
    body = {
        "model": SMOLLM,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    printed = run_shell(CURL, client_cell, body=json.dumps(body))
    *events, end = [text.removeprefix("data: ") for text in printed.split("\n\n") if text]
    assert end == "[DONE]"
    chunks = [json.loads(event) for event in events]
    assert any(choice["delta"].get("content") for each in chunks for choice in each["choices"])
    assert 0 < chunks[-1]["usage"]["completion_tokens"] <= 8
