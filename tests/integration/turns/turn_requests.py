"""What tests of turns ask for: code that the scripted model writes, and what the engine got."""

import json
from typing import Any

import psycopg
from tests.integration.cells.gateway_cell import CHAT, Cell
from tests.integration.cells.gateway_process import eventually

Body = dict[str, Any]
CODE_TOOL: Body = {"type": "code_interpreter", "container": {"type": "auto"}}


def code(*programs: str) -> str:
    """A prompt that makes the scripted model run programs, one round after the other."""
    return " THEN ".join(f"CALL python {json.dumps({'code': each})}" for each in programs)


def ask_code(*programs: str, **fields: object) -> Body:
    return {"model": CHAT, "input": code(*programs), "tools": [CODE_TOOL], **fields}


def ledger_of(cell: Cell, response: Body, rows: int) -> list[tuple[Any, ...]]:
    """The rows of a turn in the ledger: request, outcome, prompt, cached and output tokens."""
    key = response["id"].partition("_")[2]
    found: list[tuple[Any, ...]] = []

    def are_there() -> bool:
        with psycopg.connect(cell.dsn) as connection:
            found[:] = connection.execute(
                "select replace(request::text, '-', ''), outcome, prompt_tokens, cached_tokens,"
                " output_tokens from usage_attempts"
                " where replace(parent_id, '-', '') = %s order by request",
                (key,),
            ).fetchall()
        return len(found) == rows

    eventually(are_there)
    return found
