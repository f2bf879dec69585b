"""What must hold for every client, whatever shape it has: its usage, tools, session and errors.

A usage is what a client itself read: `prompt`, `cached` and `output` tokens.
"""

import json
from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, KIMI, LLAMA, ClientCell

# For clients that speak both of OpenAI's APIs: what tells their script which one.
both_apis = pytest.mark.parametrize(
    "api",
    [{"api": "chat", "model": KIMI}, {"api": "responses", "model": GPT_OSS}],
    ids=["chat", "responses"],
)
# Three mistakes, as arguments of a client's run; scripts have a case `error` that makes them.
UNKNOWN_MODEL = {"model": "@cf/no/such"}
WRONG_KEY = {"penstock_key": "psk_nobody"}
# 125 kB, which is what fits into a variable; the model takes 24,000 tokens of 4 bytes.
TOO_LONG = {"model": LLAMA, "prompt": "word " * 25_000}


def check_usage(usage: dict[str, Any]) -> None:
    """The client found all three counts, and there was something to count."""
    assert usage["prompt"] > 0
    assert usage["output"] > 0
    assert usage["cached"] >= 0


def check_tool_round(cell: ClientCell, told: dict[str, Any], session: str) -> None:
    """The model called, the tool ran, its result reached the model, and the model spoke."""
    assert told["results"] == ["Rain in water."]
    assert told["text"]
    first, second = (request["body"] for request in cell.requests())
    assert "Rain in water." not in json.dumps(first)
    last = (second.get("messages") or second["input"])[-1]
    assert last.get("role", last.get("type")) in {"tool", "function_call_output"}
    assert "Rain in water." in json.dumps(last)
    assert first["session_id"] == second["session_id"]
    assert cell.session(session, 2)["turn_count"] == 2


def check_conversation(cell: ClientCell, usages: list[dict[str, Any]], session: str) -> None:
    """Two turns in one session; the second found the first in the cache, and the client saw it."""
    first, second = usages
    check_usage(first)
    assert first["cached"] == 0
    assert second["prompt"] > second["cached"] > 0
    assert len({request["body"]["session_id"] for request in cell.requests()}) == 1
    turns = cell.session(session, 2)["turns"]
    assert [_billed(turn) for turn in turns] == usages


def _billed(turn: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt": turn["prompt_tokens"],
        "cached": turn["cached_tokens"],
        "output": turn["output_tokens"],
    }
