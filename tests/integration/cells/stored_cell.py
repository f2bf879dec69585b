"""A gateway that stores responses, and what its tests ask of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
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


@contextmanager
def postgres_away(cell: Cell) -> Iterator[None]:
    """Nobody can reach the cell's database, and those that could are cut off."""
    name = str(conninfo_to_dict(cell.dsn)["dbname"])
    allow = sql.SQL("alter database {} with allow_connections {}")
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
    with psycopg.connect(make_conninfo(cell.dsn, dbname="postgres"), autocommit=True) as server:
        server.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        server.execute(cut, (name,))
        try:
            yield
        finally:
            server.execute(allow.format(sql.Identifier(name), sql.SQL("true")))
