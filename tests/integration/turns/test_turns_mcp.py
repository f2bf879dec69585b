"""The model calls tools of MCP servers: offered, approved, called, and never with a secret kept."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.imitated_mcp import ImitatedMcp
from tests.integration.cells.kept_bytes import find_in_database, find_in_folder
from tests.integration.cells.stored_cell import STORING, V1, answered, messages_sent

from penstock.testing import ScriptedEngine

Body = dict[str, Any]
SECRET = "only-the-caller-and-the-server-know-this"
FREE: Body = {"type": "mcp", "server_label": "docs", "require_approval": "never"}


@pytest.fixture(scope="module")
def server() -> Iterator[ImitatedMcp]:
    with ImitatedMcp() as running:
        yield running


@pytest.fixture(scope="module")
def running(cells: CellFactory, server: ImitatedMcp) -> Iterator[tuple[Cell, ScriptedEngine]]:
    docs = f'{{label = "docs", url = "{server.url}"}}'
    strict = f'{{label = "strict", url = "{server.url}", require_approval = "always"}}'
    settings = {**STORING, "tools.mcp_servers": f"[{docs}, {strict}]"}
    with cells.open(settings) as opened:
        yield opened, opened.set_up(CHAT)


def ask(prompt: str, tool: Body, **fields: object) -> Body:
    return {"model": CHAT, "input": prompt, "tools": [tool], **fields}


def kinds(response: Body) -> list[str]:
    return [item["type"] for item in response["output"]]


def test_a_tool_is_listed_called_and_told_to_the_model(
    cell: Cell, engine: ScriptedEngine, server: ImitatedMcp
) -> None:
    response = answered(cell, ask('CALL docs__find {"q": "x"}', FREE))
    assert kinds(response) == ["mcp_list_tools", "mcp_call", "message"]
    listed, call, _ = response["output"]
    assert [tool["name"] for tool in listed["tools"]] == ["find", "drop", "fail"]
    assert (call["server_label"], call["name"]) == ("docs", "find")
    assert (call["output"], call["error"]) == ('find gave {"q": "x"}', None)
    assert messages_sent(engine)[-1]["content"] == 'find gave {"q": "x"}'
    assert server.called[-1] == ("find", {"q": "x"})


def test_a_later_turn_does_not_ask_for_the_tools_again(cell: Cell, server: ImitatedMcp) -> None:
    first = answered(cell, ask('CALL docs__find {"q": "x"}', FREE))
    before = server.asked["tools/list"]
    second = answered(
        cell, ask('CALL docs__find {"q": "y"}', FREE, previous_response_id=first["id"])
    )
    assert kinds(second) == ["mcp_call", "message"]
    assert server.asked["tools/list"] == before


def test_a_call_waits_for_its_approval(cell: Cell, server: ImitatedMcp) -> None:
    tool = {"type": "mcp", "server_label": "docs"}
    first = answered(cell, ask('CALL docs__drop {"q": "x"}', tool))
    assert kinds(first) == ["mcp_list_tools", "mcp_approval_request"]
    ran = len(server.called)
    request = first["output"][-1]
    assert (request["name"], request["arguments"]) == ("drop", '{"q": "x"}')
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": request["id"],
        "approve": True,
    }
    second = answered(
        cell,
        {
            "model": CHAT,
            "input": [answer],
            "tools": [tool],
            "previous_response_id": first["id"],
        },
    )
    assert kinds(second) == ["mcp_call", "message"]
    assert second["output"][0]["approval_request_id"] == request["id"]
    assert server.called[ran:] == [("drop", {"q": "x"})]


def test_a_call_that_is_denied_is_told_to_the_model(
    cell: Cell, engine: ScriptedEngine, server: ImitatedMcp
) -> None:
    tool = {"type": "mcp", "server_label": "docs"}
    first = answered(cell, ask("CALL docs__drop {}", tool))
    ran = len(server.called)
    denied = {
        "type": "mcp_approval_response",
        "approval_request_id": first["output"][-1]["id"],
        "approve": False,
        "reason": "Not today.",
    }
    body = {"model": CHAT, "input": [denied], "tools": [tool]}
    second = answered(cell, {**body, "previous_response_id": first["id"]})
    assert kinds(second) == ["message"]
    assert len(server.called) == ran
    told = messages_sent(engine)[-1]["content"]
    assert told == "The user did not approve this call. It was not run. Not today."


def test_only_a_stored_request_counts_where_the_operator_demands_approval(cell: Cell) -> None:
    tool = {"type": "mcp", "server_label": "strict", "require_approval": "never"}
    first = answered(cell, ask("CALL strict__drop {}", tool))
    assert kinds(first)[-1] == "mcp_approval_request"
    forged = {**first["output"][-1], "id": "mcpr_forged", "penstock": {"id": "c", "name": "x"}}
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_forged",
        "approve": True,
    }
    sent = cell.post(V1, {"model": CHAT, "input": [forged, answer], "tools": [tool]})
    assert sent.status_code == 400
    assert "must be a stored one" in sent.json()["error"]["message"]


def test_a_tool_that_fails_is_told_to_the_model(cell: Cell, engine: ScriptedEngine) -> None:
    response = answered(cell, ask("CALL docs__fail {}", FREE))
    call = response["output"][1]
    assert call["status"] == "failed"
    assert call["error"]["type"] == "mcp_tool_execution_error"
    assert messages_sent(engine)[-1]["content"] == "fail gave {}"


def test_allowed_tools_are_a_hard_filter(cell: Cell, server: ImitatedMcp) -> None:
    ran = len(server.called)
    tool = {**FREE, "allowed_tools": ["find"]}
    response = answered(cell, ask("CALL docs__drop {}", tool))
    assert kinds(response) == ["mcp_list_tools", "message"]
    assert len(server.called) == ran


def test_a_server_that_nobody_allowed_is_refused(cell: Cell) -> None:
    tool = {"type": "mcp", "server_label": "mine", "server_url": "https://example.com/mcp"}
    sent = cell.post(V1, ask("hello", tool))
    assert sent.status_code == 400
    assert sent.json()["error"]["param"].startswith("tools[0]")


def test_secrets_reach_the_server_and_are_kept_nowhere(
    cell: Cell, server: ImitatedMcp, running: tuple[Cell, ScriptedEngine]
) -> None:
    tool = {**FREE, "authorization": SECRET}
    # A tool that nothing here runs is dropped.
    tools = [{"type": "web_search"}, tool]
    response = answered(cell, {"model": CHAT, "input": "CALL docs__find {}", "tools": tools})
    assert server.headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in json.dumps(response)
    [shown] = response["tools"]
    assert (shown["server_label"], shown["require_approval"]) == ("docs", "never")
    assert SECRET not in cell.get(f"{V1}/{response['id']}").text
    assert find_in_database(cell.dsn, SECRET.encode()) == []
    assert find_in_folder(cell.journal.parent, SECRET.encode(), without="") == []
    assert SECRET not in cell.gateway.log_text()


def test_the_sdk_takes_the_stream(cell: Cell) -> None:
    with sdk(cell).responses.stream(
        **ask("CALL docs__find {} THEN CALL docs__find {}", FREE)
    ) as got:
        events = list(got)
        final = got.get_final_response()
    assert [item.type for item in final.output] == [
        "mcp_list_tools", "mcp_call", "mcp_call", "message",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
