"""Outputs of tools that contracts cut: the same bytes on two gateways, and after their restart."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from tests.integration.cells.batch_cell import line as line_of
from tests.integration.cells.batch_cell import lines_in, run_jobs, sdk, start_batch, wait_for
from tests.integration.cells.gateway_cell import CHAT, COMPOSED, NATIVE, Cell, CellFactory
from tests.integration.cells.gateway_process import GatewayProcess, Settings, eventually
from tests.integration.cells.imitated_mcp import ImitatedMcp
from tests.integration.cells.stored_cell import STORING, V1, messages_sent
from tests.integration.contracts.contract_cell import REFRESH, contract, in_force

from penstock.testing import ScriptedEngine
from penstock.wire.json_body import Fields

Body = dict[str, Any]
_MOST: Final = 2000
_HEADERS: Final = {"x-penstock-workflow": "work"}
_OUTPUT: Final = "".join(f"{number} files in folder {number}\n" for number in range(300))
_JSON: Final = json.dumps([{"id": number, "size": 1.5} for number in range(300)])
_CUT: Final = contract("work", f'tool_output = {{ bytes_max = {_MOST}, exempt = ["read_*"] }}')
_OBSERVED: Final = contract("watch", f'mode = "observe"\ntool_output = {{ bytes_max = {_MOST} }}')


@pytest.fixture(scope="module")
def server() -> Iterator[ImitatedMcp]:
    with ImitatedMcp() as running:
        yield running


@pytest.fixture(scope="module")
def running(
    cells: CellFactory, server: ImitatedMcp, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cell, ScriptedEngine, GatewayProcess]]:
    docs = f'[{{label = "docs", url = "{server.url}"}}]'
    settings: Settings = {**STORING, **REFRESH, "tools.mcp_servers": docs}
    with cells.open(settings) as cell:
        engine = cell.set_up(CHAT, COMPOSED, NATIVE)
        in_force(cell, _CUT, _OBSERVED)
        folder = tmp_path_factory.mktemp("second")
        own = {
            "metering.journal_folder": str(folder / "journal"),
            "store.objects_url": f"file:{cell.journal.parent}/penstock-state/objects",
        }
        with GatewayProcess(folder, {**cell.gateway._settings, **own}) as second:
            yield cell, engine, second


def _chat(*outputs: str, tool: str = "ls", model: str = CHAT) -> Body:
    messages: list[Body] = [{"role": "user", "content": "Look around."}]
    for number, output in enumerate(outputs):
        call = {"id": f"c{number}", "type": "function",
                "function": {"name": tool, "arguments": "{}"}}  # fmt: skip
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": output},
        ]
    return {"model": model, "messages": [*messages, {"role": "user", "content": "And?"}]}


def _items(output: str) -> list[Body]:
    return [
        {"role": "user", "content": "Look around."},
        {"type": "function_call", "call_id": "c0", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": output},
        {"role": "user", "content": "And?"},
    ]


def _blocks(output: str) -> list[Body]:
    return [
        {"role": "user", "content": "Look around."},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c0", "name": "ls", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c0", "content": output},
            {"type": "text", "text": "And?"}]},
    ]  # fmt: skip


def _ways(cell: Cell) -> list[tuple[str, Body]]:
    native = _chat(_OUTPUT)["messages"]
    ways: list[tuple[str, Body]] = [
        ("/v1/chat/completions", _chat(_OUTPUT, _JSON)),
        (V1, {"model": CHAT, "input": _items(_OUTPUT), "store": False}),
        (V1, {"model": CHAT, "input": _items(_OUTPUT)}),
        (V1, {"model": COMPOSED, "input": _items(_OUTPUT), "store": False}),
        ("/v1/messages", {"model": CHAT, "messages": _blocks(_OUTPUT), "max_tokens": 20}),
        (cell.path(f"run/{NATIVE}"), {"messages": native}),
        (cell.path("run"), {"model": CHAT, "input": {"messages": native}}),
    ]
    return [(path, {**body, "stream": stream}) for path, body in ways for stream in (False, True)]


def _sent(engine: ScriptedEngine) -> str:
    """The prompt that the engine got last, as it was written."""
    last = engine.state().last_request
    assert last is not None
    body: Fields = msgspec.json.decode(last["body"], type=Fields)
    return bytes(body["input"] if "input" in body else body["messages"]).decode()


def _ask(cell: Cell, gateway: GatewayProcess, path: str, body: Body) -> str:
    """Send a request under the contract; return what its answer says of the outputs."""
    headers = {**cell.authorization(), **_HEADERS}
    answer = cell.client.post(gateway.url + path, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    applied: str = answer.headers.get("x-penstock-applied", "")
    return applied


def test_every_gateway_sends_the_same_bytes_also_after_its_restart(
    running: tuple[Cell, ScriptedEngine, GatewayProcess],
) -> None:
    cell, engine, second = running
    sent: list[list[tuple[str, str]]] = []
    for gateway in (cell.gateway, second, cell.gateway):
        if len(sent) == 2:
            gateway.stop()
            gateway.start()
        sent.append([])
        for path, body in _ways(cell):
            applied = _ask(cell, gateway, path, body)
            sent[-1].append((_sent(engine), applied))
    assert sent[0] == sent[1] == sent[2]
    for (path, body), (got, applied) in zip(_ways(cell), sent[0], strict=True):
        assert applied.startswith("tool_output="), path
        assert "left out here: contract work]" in got, path
        assert "299 files in folder 299" in got
        assert "150 files in folder 150" not in got
        assert len(got) < len(json.dumps(body)) - len(_OUTPUT) + _MOST + 500


def test_a_later_turn_begins_with_the_bytes_of_the_earlier_one(
    running: tuple[Cell, ScriptedEngine, GatewayProcess],
) -> None:
    cell, engine, second = running
    path = "/v1/chat/completions"
    _ask(cell, cell.gateway, path, _chat(_OUTPUT))
    before = messages_sent(engine)[:-1]
    applied = _ask(cell, second, path, _chat(_OUTPUT, _JSON))
    assert messages_sent(engine)[: len(before)] == before
    assert applied.startswith("tool_output=2/")


def test_a_stored_chain_is_kept_whole_and_sent_cut(
    running: tuple[Cell, ScriptedEngine, GatewayProcess],
) -> None:
    cell, engine, second = running
    headers = {**cell.authorization(), **_HEADERS}
    asked = {"model": CHAT, "input": _items(_OUTPUT)}
    first = cell.client.post(cell.gateway.url + V1, json=asked, headers=headers).json()
    before = messages_sent(engine)
    follows = {"model": CHAT, "input": "And then?", "previous_response_id": first["id"]}
    answer = cell.client.post(second.url + V1, json=follows, headers=headers)
    assert messages_sent(engine)[: len(before)] == before
    assert answer.headers["x-penstock-applied"].startswith("tool_output=1/")
    kept = cell.get(f"{V1}/{first['id']}/input_items").json()["data"]
    assert [item["output"] for item in kept if item["type"] == "function_call_output"] == [_OUTPUT]


def test_the_output_of_a_tool_that_runs_here_is_cut_to_the_same(
    running: tuple[Cell, ScriptedEngine, GatewayProcess],
) -> None:
    cell, engine, _ = running
    long = "x" * 5000
    tool = {"type": "mcp", "server_label": "docs", "require_approval": "never"}
    asked = {"model": CHAT, "input": f'CALL docs__find {{"q": "{long}"}}', "tools": [tool]}
    answer = cell.post(V1, asked, headers=_HEADERS)
    assert answer.status_code == 200, answer.text
    told = messages_sent(engine)[-1]["content"]
    assert told.startswith("find gave")
    assert len(told.encode()) <= _MOST
    assert " left out here: contract work]" in told
    shown = [item["output"] for item in answer.json()["output"] if item["type"] == "mcp_call"]
    assert shown == [f'find gave {{"q": "{long}"}}']
    cell.post(V1, asked)
    assert messages_sent(engine)[-1]["content"] == shown[0]


def test_lines_of_a_batch_are_cut(running: tuple[Cell, ScriptedEngine, GatewayProcess]) -> None:
    cell, _, _ = running
    client = sdk(cell)
    # Jobs answer with their first message.
    messages = [{"role": "tool", "name": "ls", "content": _OUTPUT}, *_chat()["messages"]]
    body = {"model": CHAT, "messages": messages, "metadata": {"workflow": "work"}}
    batch = start_batch(client, line_of("a", body=body))
    wait_for(client, batch, "in_progress")
    eventually(lambda: run_jobs(cell) == 1)
    done = wait_for(client, batch, "completed")
    (result,) = lines_in(client, done.output_file_id)
    told = result["response"]["body"]["choices"][0]["message"]["content"].removeprefix("re: ")
    assert len(told.encode()) <= _MOST
    assert told.startswith("0 files in folder 0\n")
    assert " left out here: contract work]" in told


def test_exempt_tools_and_observing_contracts_change_nothing(
    running: tuple[Cell, ScriptedEngine, GatewayProcess],
) -> None:
    cell, engine, _ = running
    path = "/v1/chat/completions"
    assert _ask(cell, cell.gateway, path, _chat(_OUTPUT, tool="read_file")) == ""
    assert messages_sent(engine)[2]["content"] == _OUTPUT
    labels = ('contract="watch"', 'kind="tool_output"', 'mode="observe"')
    before = cell.gateway.metric("penstock_contract_effects_total", *labels)
    answer = cell.post(path, _chat(_OUTPUT), headers={"x-penstock-workflow": "watch"})
    assert answer.headers["x-penstock-contract"] == "watch@1; observe"
    assert "x-penstock-applied" not in answer.headers
    assert messages_sent(engine)[2]["content"] == _OUTPUT
    eventually(
        lambda: cell.gateway.metric("penstock_contract_effects_total", *labels) == before + 1
    )
