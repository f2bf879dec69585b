"""OpenAI's agents SDK: its hosted tools run here, in a real sandbox and on a real MCP server."""

import json
from typing import Any

from tests.acceptance.client_cell import GPT_OSS
from tests.acceptance.client_run import run_python
from tests.acceptance.code_cell import CodeCell

PROGRAM = 'CALL python {"code": "x = 41; print(6 * 7)"}'
SUM = 'CALL sums__add {"a": 2, "b": 3}'


def run(running: CodeCell, case: str, prompt: str) -> Any:
    running.cell.forget()
    script = "agents_hosted_tools.py"
    return run_python(script, running.cell, case=case, model=GPT_OSS, prompt=prompt)


def results(running: CodeCell) -> list[str]:
    """What the model was told of its calls, in its last prompt."""
    messages = running.cell.requests()[-1]["body"]["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def kinds(told: dict[str, Any]) -> list[str]:
    return [item["type"] for item in told["items"]]


def test_code_interpreter_keeps_its_variables_over_runs(code_cell: CodeCell) -> None:
    first, second = run(code_cell, "code", PROGRAM)
    assert kinds(first) == kinds(second) == ["code_interpreter_call", "message"]
    containers = [told["items"][0]["container_id"] for told in (first, second)]
    assert containers[0] == containers[1]
    assert results(code_cell)[-1] == "42\n"
    assert first["text"]
    assert second["text"]


def test_mcp_call_runs_when_the_callback_approves(code_cell: CodeCell) -> None:
    before = code_cell.tools_called()
    told = run(code_cell, "approve", SUM)
    check_approved(code_cell, told, before)
    ((label, name, arguments),) = told["asked"]
    assert (label, name, json.loads(arguments)) == ("sums", "add", {"a": 2, "b": 3})


def test_mcp_call_runs_when_an_interrupted_run_is_approved(code_cell: CodeCell) -> None:
    before = code_cell.tools_called()
    told = run(code_cell, "interrupt", SUM)
    check_approved(code_cell, told, before)
    assert told["asked"] == "add"


def test_mcp_call_does_not_run_when_it_is_rejected(code_cell: CodeCell) -> None:
    before = code_cell.tools_called()
    told = run(code_cell, "reject", SUM)
    assert kinds(told) == ["mcp_list_tools", "mcp_approval_request", "message"]
    assert code_cell.tools_called() == before
    # The model knows that it was refused, and why.
    assert "Not today." in json.dumps(code_cell.cell.requests()[-1]["body"]["messages"])


def check_approved(running: CodeCell, told: dict[str, Any], before: int) -> None:
    """The call ran once, after its approval, and the model was told its result."""
    assert kinds(told) == ["mcp_list_tools", "mcp_approval_request", "mcp_call", "message"]
    _, request, call, _ = told["items"]
    assert (call["approval_request_id"], call["output"]) == (request["id"], "5")
    assert running.tools_called() == before + 1
    assert results(running) == ["5"]
    assert told["text"]
