"""The openai Python SDK with code that really runs, in a container of `penstock sandbox`."""

from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, KIMI
from tests.acceptance.client_run import run_python
from tests.acceptance.code_cell import CodeCell

both_families = pytest.mark.parametrize("model", [KIMI, GPT_OSS], ids=["chat", "responses"])


def run(running: CodeCell, case: str, model: str = KIMI) -> Any:
    running.cell.forget()
    return run_python("openai_code.py", running.cell, case=case, model=model)


def printed(item: dict[str, Any]) -> str:
    return "".join(each["logs"] for each in item["outputs"] if each["type"] == "logs")


@both_families
def test_three_rounds_are_one_stream_with_files_in_and_out(code_cell: CodeCell, model: str) -> None:
    told = run(code_cell, "stream", model)
    kinds, numbers = zip(*told["events"], strict=True)
    assert list(numbers) == list(range(len(numbers)))
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert [kinds.count(f"response.code_interpreter_call.{step}") for step in
            ("in_progress", "interpreting", "completed")] == [3, 3, 3]  # fmt: skip
    *calls, message = told["response"]["output"]
    assert [call["status"] for call in calls] == ["completed", "completed", "failed"]
    assert len({call["container_id"] for call in calls}) == 1
    assert told["code"] == "".join(call["code"] for call in calls)
    count, total, failure = (printed(call) for call in calls)
    assert (count.strip(), total.strip()) == ("3", "12")
    assert "ZeroDivisionError: division by zero" in failure
    assert message["content"][0]["text"]
    assert told["cited"] == {"total.txt": "12 sold\n"}
    assert told["stored"] == told["response"]
    (tool,) = told["response"]["tools"]
    assert tool.keys() == {"type", "container"}
    # The model was asked four times, and told the whole of what each program printed.
    results = [m["content"] for m in code_cell.cell.requests()[-1]["body"]["messages"] if
               m["role"] == "tool"]  # fmt: skip
    assert len(code_cell.cell.requests()) == 4
    assert [count, total] == results[:2]
    assert failure in results[2]


def test_a_container_of_ones_own_is_used_by_two_responses(code_cell: CodeCell) -> None:
    told = run(code_cell, "containers")
    assert told["container"]["driver"] == code_cell.driver
    calls = [item for item in told["used"] if item["type"] == "code_interpreter_call"]
    assert {call["container_id"] for call in calls} == {told["container"]["id"]}
    assert told["files"] == {"/mnt/data/words.txt": "user", "/mnt/data/sorted.txt": "assistant"}
    assert told["sorted"] == "dam gate"


def test_a_later_response_finds_variables_and_no_network(code_cell: CodeCell) -> None:
    first, second = run(code_cell, "chain")
    assert second["container_id"] == first["container_id"]
    number, user = printed(second).splitlines()[0].split()
    assert number == "42"
    if code_cell.driver == "bubblewrap":
        assert int(user) >= 270_000
        assert second["status"] == "failed"
        assert "OSError" in printed(second)
