"""Tools that run here: one that a contract forbids is not offered, not called and never runs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_cell import CHAT, FREE, Cell, CellFactory
from tests.integration.cells.imitated_mcp import ImitatedMcp
from tests.integration.cells.imitated_sandbox import TOKEN, ImitatedSandbox, Scripted
from tests.integration.cells.stored_cell import STORING, V1
from tests.integration.contracts.contract_cell import REFRESH, contract, in_force

from penstock.testing import ScriptedEngine
from penstock.wire.resources.sandbox import Output

Body = dict[str, Any]
DOCS: Body = {"type": "mcp", "server_label": "docs", "require_approval": "never"}
CODE: Body = {"type": "code_interpreter", "container": {"type": "auto"}}


@pytest.fixture(scope="module")
def server() -> Iterator[ImitatedMcp]:
    with ImitatedMcp() as running:
        yield running


@pytest.fixture(scope="module")
def running(
    cells: CellFactory, server: ImitatedMcp, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cell, ScriptedEngine]]:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    with ImitatedSandbox() as host:
        host.script = {"print(1)": Scripted([Output("stdout", "1\n")])}
        settings: dict[str, Any] = {
            **STORING,
            **REFRESH,
            "tools.mcp_servers": f'[{{label = "docs", url = "{server.url}"}}]',
            "tools.sandbox_hosts": [host.url],
            "tools.sandbox_token_file": str(token),
            "tools.allow_shared_kernel": True,
        }
        with cells.open(settings) as cell:
            engine = cell.set_up(CHAT, FREE)
            find = 'default = "deny", allow = ["mcp__docs__find", "code_*"]'
            in_force(
                cell,
                contract("find", f"tools = {{ {find} }}"),
                contract("left", f'tools = {{ {find}, offered = "leave" }}'),
                contract("note", f'tools = {{ {find}, on_forbidden = "note" }}'),
                contract("no-code", 'tools = { default = "allow", deny = ["code_*"] }'),
                contract("watch", 'mode = "observe"\ntools = { default = "deny" }'),
                contract(
                    "poor",
                    f'[budget]\nusd_per_day = 0.000000001\nfallback = {{ model = "{FREE}" }}',
                    f'default = "{CHAT}"',
                ),
            )
            yield cell, engine


@pytest.fixture
def cell(running: tuple[Cell, ScriptedEngine]) -> Cell:
    return running[0]


@pytest.fixture
def engine(running: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return running[1]


def by_heart(*calls: tuple[str, str]) -> str:
    return f"@script {json.dumps({'calls': calls})}"


def ask(cell: Cell, workflow: str, text: str, *tools: Body, **fields: object) -> Any:
    body = {"model": CHAT, "input": text, "tools": list(tools), **fields}
    return cell.post(V1, body, headers={"x-penstock-workflow": workflow})


def offered(engine: ScriptedEngine) -> list[str]:
    last = engine.state().last_request
    assert last is not None
    return [each["function"]["name"] for each in json.loads(last["body"]).get("tools", [])]


@pytest.mark.parametrize("workflow", ["find", "left", "note"])
def test_only_allowed_tools_of_a_server_are_offered(
    cell: Cell, engine: ScriptedEngine, server: ImitatedMcp, workflow: str
) -> None:
    answer = ask(cell, workflow, 'CALL docs__find {"q": "x"}', DOCS)
    assert answer.status_code == 200, answer.text
    assert [item["type"] for item in answer.json()["output"]][-2:] == ["mcp_call", "message"]
    assert offered(engine) == ["docs__find"]
    assert server.called[-1] == ("find", {"q": "x"})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("workflow", ["find", "left"])
def test_a_forbidden_tool_of_a_server_never_runs(
    cell: Cell, server: ImitatedMcp, workflow: str, stream: bool
) -> None:
    ran = len(server.called)
    answer = ask(cell, workflow, by_heart(("docs__drop", '{"q": "s"}')), DOCS, stream=stream)
    assert answer.status_code == (200 if stream else 403)
    assert "tool_call_forbidden" in answer.text
    assert '\\"q\\"' not in answer.text.partition("response.output_item")[2]
    assert len(server.called) == ran


def test_with_a_note_the_turn_goes_on(cell: Cell, server: ImitatedMcp) -> None:
    ran = len(server.called)
    answer = ask(cell, "note", by_heart(("docs__drop", "{}")), DOCS)
    assert answer.status_code == 200
    assert "This call was not made" in answer.json()["output"][-1]["content"][0]["text"]
    assert len(server.called) == ran


def test_an_approval_does_not_let_a_forbidden_tool_run(cell: Cell, server: ImitatedMcp) -> None:
    asking = {"type": "mcp", "server_label": "docs"}
    first = ask(cell, "none", 'CALL docs__drop {"q": "x"}', asking).json()
    request = first["output"][-1]
    assert request["type"] == "mcp_approval_request"
    ran = len(server.called)
    approval = {
        "type": "mcp_approval_response",
        "approval_request_id": request["id"],
        "approve": True,
    }
    answer = cell.post(
        V1,
        {
            "model": CHAT,
            "input": [approval],
            "tools": [asking],
            "previous_response_id": first["id"],
        },
        headers={"x-penstock-workflow": "find"},
    )
    assert answer.status_code == 400
    assert len(server.called) == ran


def test_a_server_without_an_allowed_tool_is_taken_out(
    cell: Cell, engine: ScriptedEngine, server: ImitatedMcp
) -> None:
    asked = server.asked["tools/list"]
    narrow = {**DOCS, "allowed_tools": ["drop"]}
    answer = ask(cell, "find", "hello", narrow)
    assert answer.status_code == 200
    assert answer.headers["x-penstock-applied"] == "tools=-1"
    assert (offered(engine), server.asked["tools/list"]) == ([], asked)


def test_code_runs_only_where_it_is_allowed(cell: Cell, engine: ScriptedEngine) -> None:
    program = f"CALL python {json.dumps({'code': 'print(1)'})}"
    answer = ask(cell, "find", program, CODE)
    assert answer.status_code == 200, answer.text
    assert answer.json()["output"][0]["type"] == "code_interpreter_call"
    answer = ask(cell, "no-code", program, CODE)
    assert answer.status_code == 200
    assert [item["type"] for item in answer.json()["output"]] == ["message"]
    assert offered(engine) == []


def test_what_only_observes_lets_tools_run(cell: Cell, server: ImitatedMcp) -> None:
    ran = len(server.called)
    answer = ask(cell, "watch", 'CALL docs__drop {"q": "x"}', DOCS)
    assert answer.status_code == 200
    assert "x-penstock-applied" not in answer.headers
    assert len(server.called) == ran + 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_falls_back_as_a_whole(cell: Cell, server: ImitatedMcp, stream: bool) -> None:
    ran = len(server.called)
    answer = ask(cell, "poor", 'CALL docs__find {"q": "x"}', DOCS, stream=stream)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-penstock-model-why"] == "fallback"
    assert len(server.called) == ran + 1
    if not stream:
        # Both of its questions were answered by the model without a price.
        assert answer.headers["x-penstock-cost-usd"].strip("0.") == ""
