"""`AI.run` of examples/ai-run: code that was written for the Workers AI binding, over REST."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.acceptance.cli_run import until
from tests.acceptance.client_cell import GPT_OSS, KIMI, LLAMA, ClientCell
from tests.acceptance.client_run import ROOT, client_environment, run_node

EXAMPLE = ROOT / "examples" / "ai-run"
HELLO = "Say hello to the people at the mill, and say it with as many words as you can find."
FAMILIES = pytest.mark.parametrize("model", [KIMI, LLAMA], ids=["openai", "native"])


def play(case: str, cell: ClientCell, model: str, prompt: str = HELLO, **more: str) -> Any:
    given = {"model": model, "prompt": prompt, "ai_run": str(EXAMPLE / "ai-run.mjs"), **more}
    return run_node("ai-run", cell, case=case, **given)


def test_result_has_no_envelope_and_its_family_s_shape(scripted_cell: ClientCell) -> None:
    told = play("text", scripted_cell, KIMI, session="ses_ai_run_text")
    assert told["result"]["choices"][0]["message"]["content"]
    (turn,) = scripted_cell.session("ses_ai_run_text")["turns"]
    assert turn["request"] == told["id"]
    native = play("text", scripted_cell, LLAMA)["result"]
    assert set(native) == {"response", "usage"}
    response = play("responses", scripted_cell, GPT_OSS)
    assert (response["object"], response["status"]) == ("response", "completed")
    assert response["usage"]["output_tokens"] > 0


@FAMILIES
def test_stream_is_a_readable_stream_of_events(scripted_cell: ClientCell, model: str) -> None:
    told = play("stream", scripted_cell, model)
    assert told["isStream"]
    assert told["isDone"]
    key = "response" if model == LLAMA else "choices"
    assert all(key in event for event in told["events"])


@FAMILIES
def test_raw_response_has_the_result_alone(scripted_cell: ClientCell, model: str) -> None:
    told = play("raw", scripted_cell, model)
    assert (told["isResponse"], told["status"]) == (True, 200)
    assert {"success", "result"}.isdisjoint(told["body"])


def test_session_header_reads_cached_tokens(scripted_cell: ClientCell) -> None:
    usages = play("conversation", scripted_cell, KIMI, session="ses_ai_run")
    assert usages[1]["prompt_tokens_details"]["cached_tokens"] > 0
    assert scripted_cell.session("ses_ai_run", 2)["turn_count"] == 2


@FAMILIES
def test_queued_request_is_polled_by_its_id_alone(scripted_cell: ClientCell, model: str) -> None:
    told = play("queue", scripted_cell, model)
    assert told["queued"]["status"] == "queued"
    (answer,) = told["found"]["responses"]
    assert answer["success"]


@pytest.mark.parametrize(
    ("case", "model", "prompt", "status", "code"),
    [
        ("error", "@cf/no/such", HELLO, 400, 5007),
        ("error", KIMI, '@script {"status": 503}', 429, 3040),
        ("stranger", KIMI, HELLO, 401, 10000),
    ],
    ids=["unknown model", "no room", "unknown key"],
)
def test_errors_are_named_and_begin_with_the_internal_code(
    scripted_cell: ClientCell, case: str, model: str, prompt: str, status: int, code: int
) -> None:
    told = play(case, scripted_cell, model, prompt)
    assert told["isError"]
    assert (told["name"], told["internalCode"]) == ("InferenceUpstreamError", code)
    assert told["message"].startswith(f"{code}: ")
    assert told["status"] == status
    assert told["requestId"]


def test_engine_stops_when_the_caller_aborts(scripted_cell: ClientCell) -> None:
    scripted_cell.forget()
    play("aborted", scripted_cell, KIMI, '@script {"tokens": 2000, "interval": 0.05}')
    until(lambda: [each["outcome"] for each in scripted_cell.requests()] == ["aborted"], 10)


@pytest.fixture(scope="module")
def worker(
    scripted_cell: ClientCell, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """The example's Worker, served by Node as its README says."""
    home = str(tmp_path_factory.mktemp("worker"))
    environment = client_environment(scripted_cell, home, {"port": "0"})
    with subprocess.Popen(
        ["node", "serve.mjs"], cwd=EXAMPLE, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            with httpx.Client(base_url=address.split("/?")[0], timeout=30) as client:
                yield client
        finally:
            process.terminate()


def test_worker_answers_and_streams(worker: httpx.Client) -> None:
    whole = worker.get("/", params={"q": "What turns the wheel?"}).json()
    assert whole["usage"]["completion_tokens"] > 0
    lines = worker.get("/", params={"q": "What turns the wheel?", "stream": ""}).text.split("\n\n")
    assert lines[-2] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    pieces = [choice["delta"].get("content", "") for event in events for choice in event["choices"]]
    assert "".join(pieces) == whole["text"]


def test_worker_passes_on_what_went_wrong(worker: httpx.Client) -> None:
    failed = worker.get("/", params={"q": '@script {"status": 500}'})
    assert failed.status_code == 500
    assert failed.json()["error"].startswith("5001: ")
    assert worker.get("/").status_code == 400
