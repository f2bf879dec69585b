"""Forbidden calls never reach a client, on every API, streamed or not: by bytes on the socket."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_cell import CHAT, COMPOSED, NATIVE, Cell, CellFactory, prompt
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.contracts.contract_cell import REFRESH, contract, in_force
from tests.integration.contracts.tool_requests import SHAPES, tool_request
from tests.unit.serving.screened_answers import DONE, FINISH, ROLE, calls, part

from penstock.testing import ScriptedEngine

ARGUMENTS = '{"path": "/only-in-the-arguments"}'
CALL = calls(part(0, "bash", ARGUMENTS))
READ = [["read_file", ARGUMENTS]]
BASH = [["read_file", "{}"], ["bash", ARGUMENTS]]
AS_TEXT = 'So: <tool_call>{"name": "bash", "arguments": {"path": "/only-in-the-arguments"}}'
_ONLY = 'tools = { default = "deny", allow = ["read_*", "web_search"]'
OFFERED = ("read_file", "bash")


@pytest.fixture(scope="module")
def running(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({**REFRESH, "ingress.prompt_bytes_per_token": 4}) as cell:
        engine = cell.set_up(CHAT, NATIVE, COMPOSED)
        in_force(
            cell,
            contract("only", _ONLY + ', offered = "leave" }'),
            contract("strip", _ONLY + " }"),
            contract("refuse", _ONLY + ', offered = "refuse" }'),
            contract("note", _ONLY + ', on_forbidden = "note", offered = "leave" }'),
            contract("watch", 'mode = "observe"\n' + _ONLY + " }"),
        )
        yield cell, engine


@pytest.fixture
def cell(running: tuple[Cell, ScriptedEngine]) -> Cell:
    return running[0]


@pytest.fixture
def engine(running: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return running[1]


def ask(
    cell: Cell,
    shape: str,
    workflow: str,
    script: dict[str, Any],
    *,
    stream: bool = False,
    names: tuple[str, ...] = OFFERED,
    **fields: Any,
) -> httpx.Response:
    path, body = tool_request(shape, cell.account, prompt(script), names, stream=stream, **fields)
    return cell.post(path, body, headers={"x-penstock-workflow": workflow})


def body_without_echo(answer: httpx.Response) -> bytes:
    """The answer's bytes without the request's own tools, which Responses repeat."""
    content = answer.content
    for echoed in ('"name":"bash"', '"bash","parameters"'):
        content = content.replace(echoed.encode(), b"")
    return content


def said_error(answer: httpx.Response, *, stream: bool) -> str:
    """The error's code, however this API says it."""
    for code in ("tool_call_forbidden", "tool_call_unreadable"):
        if code in answer.text:
            assert answer.status_code == (200 if stream else 403)
            return code
    return ""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_allowed_call_reaches_the_client(cell: Cell, shape: str, stream: bool) -> None:
    script = {"calls": READ}
    plain = ask(cell, shape, "none", script, stream=stream)
    answer = ask(cell, shape, "only", script, stream=stream)
    assert answer.status_code == 200, answer.text
    assert "read_file" in answer.text
    assert "only-in-the-arguments" in _joined(answer.text)
    assert len(answer.content) == pytest.approx(len(plain.content), abs=40)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_forbidden_call_never_reaches_the_client(cell: Cell, shape: str, stream: bool) -> None:
    calls = [["bash", ARGUMENTS]] if shape == "functions" else BASH
    answer = ask(cell, shape, "only", {"calls": calls}, stream=stream)
    assert said_error(answer, stream=stream) == "tool_call_forbidden"
    content = body_without_echo(answer)
    assert b"only-in" not in content
    assert b"`bash`" in content
    # Only the error names it.
    assert content.count(b"bash") == content.count(b"`bash`")
    if not stream:
        assert answer.headers["x-should-retry"] == "false"
    elif shape in ("responses", "composed"):
        assert b'"code":"invalid_prompt"' in content
    _check_charged(cell, answer, "tool_call_forbidden")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_that_begins_with_a_forbidden_call_is_charged(cell: Cell, shape: str) -> None:
    # Token by token, so that nothing but the call's first event has come when it is judged.
    script = {"calls": [["bash", ARGUMENTS]], "interval": 0.02}
    answer = ask(cell, shape, "only", script, stream=True)
    assert "tool_call_forbidden" in answer.text
    _check_charged(cell, answer, "tool_call_forbidden")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_that_is_written_as_text_is_withheld(cell: Cell, shape: str, stream: bool) -> None:
    answer = ask(cell, shape, "only", {"text": AS_TEXT}, stream=stream)
    assert said_error(answer, stream=stream) == "tool_call_unreadable"
    assert b"only-in" not in answer.content
    _check_charged(cell, answer, "tool_call_unreadable")


@pytest.mark.parametrize("workflow", ["only", "note"])
@pytest.mark.parametrize(
    "stream",
    [
        # Ends of lines that clients know; a key with an escape; a stream that never ends its call.
        ROLE + b": a comment\rdata: " + CALL.removeprefix(b"data: ") + FINISH + DONE,
        ROLE + CALL.replace(b"\n", b"\r\n") + CALL + FINISH + DONE,
        ROLE + CALL.replace(b"tool_calls", rb"tool\u005fcalls") + FINISH + DONE,
        ROLE + calls(part(0, "bash")) + calls(part(0, "_it", ARGUMENTS)),
        ROLE + DONE + CALL,
        ROLE + CALL[:-2],
    ],
)
def test_no_odd_stream_carries_a_forbidden_call(cell: Cell, workflow: str, stream: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
    raw = base64.b64encode(head % len(stream) + stream).decode()
    answer = ask(cell, "chat", workflow, {"raw": raw}, stream=True)
    assert answer.status_code == 200
    assert b"only-in" not in answer.content
    assert b'"bash' not in answer.content


def test_errors_have_workers_ais_numbers(cell: Cell) -> None:
    for script, number in (({"calls": BASH}, 9043), ({"text": AS_TEXT}, 9046)):
        answer = ask(cell, "openai", "only", script)
        assert answer.json()["errors"][0]["code"] == number


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", ["chat", "composed", "native", "openai"])
def test_a_note_takes_the_place_of_a_call(cell: Cell, shape: str, stream: bool) -> None:
    answer = ask(cell, shape, "note", {"calls": [["bash", ARGUMENTS]]}, stream=stream)
    assert answer.status_code == 200
    assert "This call was not made" in answer.text
    assert "only-in" not in _joined(answer.text)
    assert '"tool_calls"' not in answer.text
    if shape == "chat":
        assert '"finish_reason":"stop"' in answer.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_contract_that_observes_lets_everything_pass(
    cell: Cell, shape: str, stream: bool
) -> None:
    for script in ({"calls": [["bash", ARGUMENTS]]}, {"text": AS_TEXT}):
        answer = ask(cell, shape, "watch", script, stream=stream)
        assert answer.status_code == 200
        assert "only-in-the-arguments" in _joined(answer.text)
        assert "x-penstock-applied" not in answer.headers


@pytest.mark.parametrize("shape", SHAPES)
def test_forbidden_tools_are_taken_out_of_a_request(
    cell: Cell, engine: ScriptedEngine, shape: str
) -> None:
    answer = ask(cell, shape, "strip", {"text": "so"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-penstock-applied"] == "tools=-1"
    sent = sent_to(engine)
    assert "read_file" in json.dumps(sent)
    assert "bash" not in json.dumps(sent)
    answer = ask(cell, shape, "strip", {"text": "so"}, names=("bash", "sh"))
    assert answer.headers["x-penstock-applied"] == "tools=-2"
    assert not {"tools", "functions", "tool_choice"} & sent_to(engine).keys()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_with_forbidden_tools_is_refused(
    cell: Cell, engine: ScriptedEngine, shape: str
) -> None:
    before = engine.state().requests
    answer = ask(cell, shape, "refuse", {"text": "so"})
    assert answer.status_code == 403
    assert "tool_forbidden" in answer.text
    assert "`bash`" in answer.text
    assert engine.state().requests == before
    assert ask(cell, shape, "refuse", {"text": "so"}, names=("read_file",)).status_code == 200


@pytest.mark.parametrize("shape", SHAPES)
def test_forbidden_tools_may_be_left(cell: Cell, engine: ScriptedEngine, shape: str) -> None:
    answer = ask(cell, shape, "only", {"text": "so"})
    assert answer.status_code == 200
    assert "x-penstock-applied" not in answer.headers
    assert "bash" in json.dumps(sent_to(engine))


def test_a_choice_of_a_forbidden_tool_is_refused(cell: Cell) -> None:
    choices: dict[str, dict[str, Any]] = {
        "chat": {"tool_choice": {"type": "function", "function": {"name": "bash"}}},
        "functions": {"function_call": {"name": "bash"}},
        "responses": {"tool_choice": {"type": "function", "name": "bash"}},
        "composed": {"tool_choice": {"type": "function", "name": "bash"}},
        "messages": {"tool_choice": {"type": "tool", "name": "bash"}},
    }
    for shape, choice in choices.items():
        answer = ask(cell, shape, "strip", {"text": "so"}, **choice)
        assert answer.status_code == 403, shape
        assert "tool_forbidden" in answer.text


def sent_to(engine: ScriptedEngine) -> dict[str, Any]:
    last = engine.state().last_request
    assert last is not None
    found: dict[str, Any] = json.loads(last["body"])
    return found


def _joined(text: str) -> str:
    """The text with what stands between the pieces of arguments and of words taken out."""
    pieces = []
    for line in text.splitlines():
        data = line.removeprefix("data: ")
        if data.startswith("{"):
            pieces += list(_strings(json.loads(data)))
    return text + "".join(pieces)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("arguments", "partial_json", "delta", "content", "text", "response"):
                yield from [each] if isinstance(each, str) else _strings(each)
            elif isinstance(each, dict | list):
                yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _check_charged(cell: Cell, answer: httpx.Response, code: str) -> None:
    """The answer was made: it is charged as any other, and nobody tried it again."""
    (row,) = rows_of(cell, answer.headers["x-request-id"])
    assert (row["outcome"], row["error"]) == ("ok", code)
    assert row["charge_nanousd"] > 0
    line = cell.gateway.request_line(answer.headers["x-request-id"])
    assert (line["outcome"], line["error"], line["attempts"]) == ("ok", code, 1)
