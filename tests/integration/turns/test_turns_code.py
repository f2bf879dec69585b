"""The model runs code: one response, several requests, and everything that can go wrong between."""

import json
from typing import Any

import openai
import pytest
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_cell import CHAT, Cell
from tests.integration.cells.imitated_sandbox import ImitatedSandbox
from tests.integration.cells.stored_cell import V1, answered, count_rows, messages_sent
from tests.integration.turns.turn_requests import CODE_TOOL, Body, ask_code, ledger_of

from penstock.testing import ScriptedEngine

OUTPUTS = ["code_interpreter_call.outputs"]


@pytest.fixture
def client(cell: Cell) -> openai.OpenAI:
    return sdk(cell)


def kinds(response: Body) -> list[str]:
    return [item["type"] for item in response["output"]]


def logs(item: Body) -> str:
    return "".join(each.get("logs", "") for each in item["outputs"])


def test_code_runs_and_the_model_goes_on_with_its_output(
    cell: Cell, engine: ScriptedEngine, host: ImitatedSandbox
) -> None:
    response = answered(cell, ask_code("print(6*7)", include=OUTPUTS))
    assert kinds(response) == ["code_interpreter_call", "message"]
    call, message = response["output"]
    assert (call["status"], call["code"], logs(call)) == ("completed", "print(6*7)", "42\n")
    assert call["container_id"].startswith("cntr_")
    assert message["content"][0]["text"]
    assert response["status"] == "completed"
    assert "penstock" not in json.dumps(response)
    assert host.calls[-1].code == "print(6*7)"
    *_, called, told = messages_sent(engine)
    assert called["tool_calls"][0]["function"]["name"] == "python"
    assert told["role"] == "tool"
    assert told["content"] == "42\n"


def test_every_time_that_the_model_is_asked_is_billed_under_one_parent(cell: Cell) -> None:
    response = answered(cell, ask_code("print(6*7)", "x = 1"))
    rows = ledger_of(cell, response, 3)
    assert rows[0][0] == response["id"].partition("_")[2]
    assert [row[1] for row in rows] == ["ok"] * 3
    usage = response["usage"]
    assert usage["input_tokens"] == sum(row[2] for row in rows)
    assert usage["output_tokens"] == sum(row[4] for row in rows)
    # Each prompt begins with the one before it.
    assert all(row[3] for row in rows[1:])


def test_a_stream_over_three_rounds_is_one_response_for_the_sdk(
    cell: Cell, client: openai.OpenAI
) -> None:
    asked = ask_code("print(6*7)", "x = 1", "print(6*7)", include=OUTPUTS)
    with client.responses.stream(**asked) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events].count("response.created") == 1
    kinds = [item.type for item in final.output]
    assert kinds == ["code_interpreter_call"] * 3 + ["message"]
    [done] = [e for e in events if e.type == "response.completed"]
    assert done.response.id == final.id
    assert cell.post(
        V1, {"model": CHAT, "input": "And?", "previous_response_id": final.id}
    ).is_success


def test_a_later_turn_repeats_the_prompt_and_uses_the_same_container(
    cell: Cell, engine: ScriptedEngine, host: ImitatedSandbox
) -> None:
    first = answered(cell, ask_code("x = 1"))
    before = messages_sent(engine)
    second = answered(cell, ask_code("print(6*7)", previous_response_id=first["id"]))
    assert messages_sent(engine)[: len(before)] == before
    assert second["output"][0]["container_id"] == first["output"][0]["container_id"]
    host.reboot()
    third = answered(cell, ask_code("print(6*7)", previous_response_id=second["id"]))
    assert third["output"][0]["container_id"] != first["output"][0]["container_id"]
    *_, told = messages_sent(engine)
    assert "variables and files are gone" in told["content"]


def test_history_that_a_client_kept_goes_on_without_the_store(
    cell: Cell, engine: ScriptedEngine
) -> None:
    first = answered(cell, ask_code("print(6*7)", store=False, include=OUTPUTS))
    items = [
        {"role": "user", "content": "x"},
        *first["output"],
        {"role": "user", "content": "And?"},
    ]
    second = answered(cell, {"model": CHAT, "input": items, "store": False, "tools": [CODE_TOOL]})
    assert kinds(second) == ["message"]
    told = next(m for m in messages_sent(engine) if m["role"] == "tool")
    assert told["content"] == "42\n"


def test_store_false_leaves_no_row(cell: Cell) -> None:
    before = count_rows(cell, "responses")
    answered(cell, ask_code("print(6*7)", store=False))
    assert (count_rows(cell, "responses"), count_rows(cell, "turns")) == (before, 0)


def test_what_is_printed_is_stored_but_shown_only_to_those_who_ask(
    cell: Cell, client: openai.OpenAI
) -> None:
    response = answered(cell, ask_code("print(6*7)"))
    assert response["output"][0]["outputs"] is None
    plain = cell.get(f"{V1}/{response['id']}").json()
    assert plain["output"][0]["outputs"] is None
    assert "penstock" not in json.dumps(plain)
    shown = client.responses.retrieve(response["id"], include=["code_interpreter_call.outputs"])
    item = json.loads(shown.to_json())["output"][0]
    assert logs(item) == "42\n"


def test_figures_and_files_are_kept_and_named_in_the_answer(
    cell: Cell, client: openai.OpenAI
) -> None:
    response = answered(cell, ask_code("plot()", include=OUTPUTS))
    call, message = response["output"]
    cited = {each["filename"]: each for each in message["content"][0]["annotations"]}
    figure = next(name for name in cited if name.startswith("figure-"))
    assert set(cited) == {"table.csv", figure}
    content = client.containers.files.content.retrieve(
        cited["table.csv"]["file_id"], container_id=call["container_id"]
    )
    assert content.read() == b"a,b\n1,2\n"
    [picture] = [each for each in call["outputs"] if each["type"] == "image"]
    assert cell.get(picture["url"]).content == b"\x89PNG figure"


def test_a_file_that_is_written_again_is_named_once(cell: Cell) -> None:
    message = answered(cell, ask_code("plot()", "plot()"))["output"][-1]
    names = [each["filename"] for each in message["content"][0]["annotations"]]
    assert names.count("table.csv") == 1
    # The figures are two.
    assert len(names) == 3


def test_what_fails_is_told_to_the_model(cell: Cell, engine: ScriptedEngine) -> None:
    response = answered(cell, ask_code("1/0", include=OUTPUTS))
    assert response["status"] == "completed"
    assert response["output"][0]["status"] == "failed"
    assert "ZeroDivisionError: division by zero" in messages_sent(engine)[-1]["content"]


def test_the_model_is_told_the_beginning_and_the_end_of_much_output(
    cell: Cell, engine: ScriptedEngine
) -> None:
    answered(cell, ask_code("flood()"))
    told = messages_sent(engine)[-1]["content"]
    assert len(told) <= 64 * 1024
    assert " left out here]" in told


def test_max_tool_calls_ends_the_turn(cell: Cell) -> None:
    response = answered(cell, ask_code("x = 1", "x = 1", "x = 1", max_tool_calls=2))
    ran = [item for item in response["output"] if item["type"] == "code_interpreter_call"]
    assert [item["status"] for item in ran] == ["completed", "completed"]
    assert response["status"] == "completed"


def test_a_forced_choice_holds_for_the_first_call_only(cell: Cell) -> None:
    choice = {"type": "code_interpreter"}
    response = answered(cell, ask_code("print(6*7)", tool_choice=choice))
    assert kinds(response) == ["code_interpreter_call", "message"]


def test_max_output_tokens_are_those_of_the_whole_turn(cell: Cell) -> None:
    response = answered(cell, ask_code("print(6*7)", max_output_tokens=12))
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] <= 12


def test_functions_of_the_client_are_asked_for_after_ours_have_run(cell: Cell) -> None:
    look = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    prompt = 'CALL python {"code": "print(6*7)"} CALL look {}'
    response = answered(cell, {"model": CHAT, "input": prompt, "tools": [CODE_TOOL, look]})
    assert sorted(kinds(response)) == ["code_interpreter_call", "function_call"]
    assert response["status"] == "completed"


def test_a_tool_that_is_not_allowed_is_not_run(cell: Cell, host: ImitatedSandbox) -> None:
    ran = len(host.calls)
    look = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    choice = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "look"}],
    }
    body = {**ask_code("print(6*7)", tool_choice=choice), "tools": [CODE_TOOL, look]}
    assert kinds(answered(cell, body)) == ["message"]
    assert len(host.calls) == ran


def test_a_function_of_the_caller_cannot_have_the_name_of_ours(cell: Cell) -> None:
    own = {"type": "function", "name": "python", "parameters": {"type": "object"}}
    sent = cell.post(V1, {"model": CHAT, "input": "hello", "tools": [CODE_TOOL, own]})
    assert sent.status_code == 400
    assert "another name" in sent.json()["error"]["message"]


def test_a_background_response_cannot_run_code(cell: Cell) -> None:
    answer = cell.post(V1, ask_code("x = 1", background=True))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "missing_capability"


def test_a_container_that_is_named_and_gone_is_404(cell: Cell, client: openai.OpenAI) -> None:
    gone = client.containers.create(name="gone")
    client.containers.delete(gone.id)
    tool: dict[str, Any] = {"type": "code_interpreter", "container": gone.id}
    answer = cell.post(V1, {"model": CHAT, "input": "hello", "tools": [tool]})
    assert answer.status_code == 404


def test_a_cost_cap_bounds_the_whole_turn(cell: Cell) -> None:
    answer = cell.post(V1, ask_code("x = 1"), headers={"x-penstock-max-cost-usd": "0.000000001"})
    assert answer.status_code in (200, 400)
