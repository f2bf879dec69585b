"""Whatever dies in a turn: the model or the client is told, and no response stays open."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.imitated_sandbox import TOKEN, ImitatedSandbox, Scripted
from tests.integration.cells.stored_cell import (
    STORING,
    V1,
    answered,
    count_rows,
    messages_sent,
)
from tests.integration.turns.turn_requests import ask_code

from penstock.sessions import LostTurns
from penstock.store import Store
from penstock.wire.resources.sandbox import Output


@contextmanager
def running_code(cell: Cell, host: ImitatedSandbox) -> Iterator[str]:
    """A stream whose code runs on the host; its response's id. The client leaves at the end."""
    calls = len(host.calls)
    with cell.client.stream(
        "POST",
        cell.gateway.url + V1,
        content=json.dumps({**ask_code("slow()"), "stream": True}),
        headers=cell.authorization(),
    ) as answer:
        lines = answer.iter_lines()
        created = next(line for line in lines if line.startswith("data: "))
        next(line for line in lines if "interpreting" in line)
        eventually(lambda: len(host.calls) > calls)
        yield json.loads(created.removeprefix("data: "))["response"]["id"]


def test_a_host_that_dies_in_a_call_is_told_to_the_model_at_once(
    cells: CellFactory, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with ImitatedSandbox() as dying:
        dying.script = {"die()": Scripted([Output("stdout", "so far")], dies=True)}
        settings = {
            **STORING,
            "tools.sandbox_hosts": [dying.url],
            "tools.sandbox_token_file": str(token),
            "tools.allow_shared_kernel": True,
        }
        with cells.open(settings) as cell:
            engine = cell.set_up(CHAT)
            began = time.monotonic()
            response = answered(cell, ask_code("die()"))
            took = time.monotonic() - began
            told = messages_sent(engine)[-1]["content"]
    assert took < 2
    assert response["status"] == "completed"
    assert response["output"][0]["status"] == "failed"
    assert "so far" in told
    assert "The container was ended" in told


def test_a_client_that_leaves_interrupts_its_code(cell: Cell, host: ImitatedSandbox) -> None:
    interrupted = len(host.interrupted)
    with running_code(cell, host) as id:
        pass
    eventually(lambda: len(host.interrupted) > interrupted)

    def is_stored() -> bool:
        status: str = cell.get(f"{V1}/{id}").json()["status"]
        return status == "cancelled"

    eventually(is_stored)
    stored = cell.get(f"{V1}/{id}").json()
    assert [item["status"] for item in stored["output"]] == ["incomplete"]
    assert count_rows(cell, "turns") == 0


def test_control_ends_the_turn_of_a_gateway_that_died(cell: Cell, host: ImitatedSandbox) -> None:
    with running_code(cell, host) as id:
        assert cell.get(f"{V1}/{id}").json()["status"] == "in_progress"
        for pid in cell.gateway.worker_pids() or [cell.gateway.pid]:
            os.kill(pid, signal.SIGKILL)

    async def sweep(store: Store) -> int:
        return await LostTurns(store).end_them()

    assert cell.run(sweep) == 0
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("update turns set lapses_at = now() - interval '1 second'")
    assert cell.run(sweep) == 1
    assert count_rows(cell, "turns") == 0
    with psycopg.connect(cell.dsn) as connection:
        rows = connection.execute(
            "select status, error->>'code' from responses where replace(id::text, '-', '') = %s",
            (id.partition("_")[2],),
        ).fetchall()
    assert rows == [("failed", "interrupted")]
