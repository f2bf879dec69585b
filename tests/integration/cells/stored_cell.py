"""A gateway that stores responses, and what its tests ask of it."""

import json
from typing import Any

import psycopg
from tests.integration.cells.gateway_cell import CHAT, Cell, prompt

from penstock.testing import ScriptedEngine

V1 = "/v1/responses"
STORING = {"responses.store_default": True, "metering.drain_seconds": 0.05}
Body = dict[str, Any]


def ask(script: Body | None = None, text: str = "hello", **fields: object) -> Body:
    return {"model": CHAT, "input": prompt(script, text)[0]["content"], **fields}


def answered(cell: Cell, body: Body) -> Body:
    """Send a request that is answered; return the response."""
    answer = cell.post(V1, body)
    assert answer.status_code == 200, answer.text
    response: Body = answer.json()
    return response


def messages_sent(engine: ScriptedEngine) -> list[Body]:
    """The messages that the engine got last."""
    last = engine.state().last_request
    assert last is not None
    messages: list[Body] = json.loads(last["body"])["messages"]
    return messages


def count_rows(cell: Cell, table: str) -> int:
    with psycopg.connect(cell.dsn) as connection:
        row = connection.execute(f"select count(*) from {table}").fetchone()
    assert row is not None
    return int(row[0])
