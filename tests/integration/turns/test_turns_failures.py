"""Whatever dies in a turn: the model or the client is told, and no response stays open."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
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
from tests.integration.turns.turn_requests import CODE_TOOL, ask_code

from penstock.sessions import LostTurns
from penstock.store import Store
from penstock.testing import ScriptedEngine
from penstock.wire.resources.sandbox import Output


@contextmanager
def running_code(cell: Cell, host: ImitatedSandbox, *programs: str) -> Iterator[str]:
    """A stream whose code runs on the host; its response's id. The client leaves at the end."""
    programs = programs or ("slow()",)
    calls = len(host.calls)
    with cell.client.stream(
        "POST",
        cell.gateway.url + V1,
        content=json.dumps({**ask_code(*programs), "stream": True}),
        headers=cell.authorization(),
    ) as answer:
        lines = answer.iter_lines()
        created = next(line for line in lines if line.startswith("data: "))
        next(line for line in lines if "interpreting" in line)
        eventually(lambda: len(host.calls) == calls + len(programs))
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


def test_a_response_that_is_deleted_meanwhile_leaves_no_object(
    cell: Cell, host: ImitatedSandbox
) -> None:
    with running_code(cell, host, "flood()", "slow()") as id:
        url = f"{cell.gateway.url}{V1}/{id}"
        assert cell.client.delete(url, headers=cell.authorization()).status_code == 200
    eventually(lambda: count_rows(cell, "turns") == 0)
    time.sleep(0.2)
    key = id.partition("_")[2]
    names = [str(path).replace("-", "") for path in cell.journal.parent.rglob("*ending*")]
    assert [name for name in names if key in name] == []


def test_a_client_that_leaves_before_the_row_is_written_locks_nothing(cell: Cell) -> None:
    conversation = cell.post("/v1/conversations", {}).json()["id"]
    body = ask_code("x = 1", conversation=conversation)
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("lock table turns in exclusive mode")
        with pytest.raises(httpx.ReadTimeout):
            cell.client.post(
                cell.gateway.url + V1,
                content=json.dumps(body),
                headers=cell.authorization(),
                timeout=0.5,
            )
    eventually(lambda: cell.post(V1, body).status_code == 200)
    with psycopg.connect(cell.dsn) as connection:
        rows = connection.execute("select 1 from responses where status = 'in_progress'").fetchall()
    assert rows == []


def test_a_host_gets_each_call_by_an_id_of_its_own(cell: Cell, host: ImitatedSandbox) -> None:
    response = answered(cell, ask_code("x = 1", "x = 1"))
    ids = [item["id"] for item in response["output"][:2]]
    assert [call.call_id for call in host.calls[-2:]] == ids


def test_a_busy_container_is_not_taken_for_lost(
    cell: Cell, engine: ScriptedEngine, host: ImitatedSandbox
) -> None:
    first = answered(cell, ask_code("x = 1"))
    container = first["output"][0]["container_id"]
    started = len(host.asked_for)
    [key] = [id for id in host.containers if container.endswith(id)]
    host.busy.add(key)
    try:
        second = answered(cell, ask_code("x = 1", "x = 1", previous_response_id=first["id"]))
    finally:
        host.busy.discard(key)
    assert "was not run" in messages_sent(engine)[-1]["content"]
    assert [item["container_id"] for item in second["output"][:2]] == [container, container]
    third = answered(cell, ask_code("print(6*7)", previous_response_id=second["id"]))
    assert third["output"][0]["container_id"] == container
    assert len(host.asked_for) == started


def test_no_other_container_takes_the_place_of_the_callers(
    cell: Cell, host: ImitatedSandbox
) -> None:
    named = cell.post("/v1/containers", {"name": "mine"}).json()["id"]
    started = len(host.asked_for)
    tool = {**CODE_TOOL, "container": named}
    response = answered(cell, {**ask_code("die()", "x = 1"), "tools": [tool]})
    assert [item["status"] for item in response["output"][:2]] == ["failed", "failed"]
    assert len(host.asked_for) == started


def test_a_container_whose_files_are_missing_is_ended(cell: Cell, host: ImitatedSandbox) -> None:
    held = len(host.containers)
    tool = {**CODE_TOOL, "container": {"type": "auto", "file_ids": ["file-unknown"]}}
    response = answered(cell, {**ask_code("x = 1", "x = 1"), "tools": [tool]})
    assert [item["status"] for item in response["output"][:2]] == ["failed", "failed"]
    assert len(host.containers) == held


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
