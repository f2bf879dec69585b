"""Cloudflare's Python SDK: a gpt-oss model runs code on `/ai/run` and on `/ai/v1/responses`."""

from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS
from tests.acceptance.client_run import run_python
from tests.acceptance.code_cell import CodeCell

PROMPT = 'CALL python {"code": "print(6 * 7)"}'


def run(running: CodeCell, case: str) -> Any:
    script = "cloudflare_code.py"
    return run_python(script, running.cell, case=case, model=GPT_OSS, prompt=PROMPT)


def check(response: dict[str, Any]) -> None:
    call, message = response["output"]
    assert (call["type"], call["status"]) == ("code_interpreter_call", "completed")
    assert call["outputs"] == [{"type": "logs", "logs": "42\n"}]
    assert message["content"][0]["text"]
    assert response["usage"]["output_tokens"] > 0


@pytest.mark.parametrize("case", ["run", "responses"])
def test_code_runs_and_its_output_comes_back(code_cell: CodeCell, case: str) -> None:
    check(run(code_cell, case))


def test_code_runs_in_a_stream(code_cell: CodeCell) -> None:
    events = run(code_cell, "stream")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    check(events[-1]["response"])
