"""The calls that Workers AI's announcement of large models shows, with host and token changed.

What was typed for Workers AI is typed here: curl by a shell, `fetch` by another HTTP client. The
binding's `env.AI.run` has a file of its own.
"""

import json
import subprocess
from typing import Any

import httpx
import pytest
from tests.acceptance.cli_run import until
from tests.acceptance.client_cell import GPT_OSS, KIMI, ClientCell

RUN_SECONDS = 60
JOB_SECONDS = 30.0

CURL_WITH_AFFINITY = """
curl -X POST \
"$URL/client/v4/accounts/$ACCOUNT/ai/run/@cf/moonshotai/kimi-k2.5" \
  -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" \
  -H "x-session-affinity: ses_87654321" \
  -d '{
    "messages": [
      {
        "role": "system",
        "content": "You look after the water of a hydroelectric plant. Answer in one paragraph."
      },
      {
        "role": "user",
        "content": "Why does a penstock need a gate at its upper end, and who opens it?"
      }
    ],
    "max_tokens": 2400,
    "stream": true
  }'
"""

CURL_QUEUE = """
curl "$URL/client/v4/accounts/$ACCOUNT/ai/run/@cf/moonshotai/kimi-k2.5?queueRequest=true" \
  -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "requests": [
      {"messages": [{"role": "user", "content": "Name a river."}], "external_reference": "river"},
      {"messages": [{"role": "user", "content": "Name a dam."}]},
      {"prompt": "Name a lake."}
    ]
  }'
"""

CURL_POLL = """
curl "$URL/client/v4/accounts/$ACCOUNT/ai/run/@cf/moonshotai/kimi-k2.5$FLAG" \
  -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" \
  -d "{\\"request_id\\": \\"$REQUEST_ID\\"}"
"""

CURL_ASYNC = """
curl -X POST "$URL/client/v4/accounts/$ACCOUNT/ai/run/@cf/moonshotai/kimi-k2.5" \
  -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" \
  -H "cf-aig-async: true" \
  -d '{"messages": [{"role": "user", "content": "Name a river that runs north."}]}'
"""

CURL_TASK = """
curl "$URL/client/v4/accounts/$ACCOUNT/ai/tasks/$TASK_ID" -H "Authorization: Bearer $KEY"
"""

CURL_CHAT = """
curl "$URL/client/v4/accounts/$ACCOUNT/ai/v1/chat/completions" \
  -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "@cf/moonshotai/kimi-k2.5",
    "messages": [{"role": "user", "content": "What turns a turbine?"}]
  }'
"""

CURL_RESPONSES = """
curl "$URL/client/v4/accounts/$ACCOUNT/ai/v1/responses" \
  -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "@cf/openai/gpt-oss-120b",
    "input": "How much water does a turbine of one megawatt need at a head of 100 metres?",
    "reasoning": {"effort": "medium"}
  }'
"""


def test_curl_with_session_affinity_streams_and_its_next_turn_is_cached(
    scripted_cell: ClientCell,
) -> None:
    scripted_cell.forget()
    for _ in range(2):
        chunks = _events(_type(scripted_cell, CURL_WITH_AFFINITY))
        assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        assert "".join(choice["delta"].get("content") or "" for choice in choices)
        assert choices[-1]["finish_reason"] == "stop"
    first, second = scripted_cell.requests()
    assert first["body"]["session_id"] == second["body"]["session_id"]
    turns = scripted_cell.session("ses_87654321", 2)["turns"]
    assert [turn["model"] for turn in turns] == [KIMI] * 2
    assert turns[0]["cached_tokens"] == 0
    assert 0 < turns[1]["cached_tokens"] < turns[1]["prompt_tokens"]


def test_rest_call_is_answered_in_the_envelope_with_usage_and_cached_tokens(
    scripted_cell: ClientCell,
) -> None:
    words = "A long question about gates, valves and the pressure in a pipe of steel. " * 4
    messages: list[dict[str, Any]] = [{"role": "user", "content": words}]
    counted = []
    for _ in range(2):
        answer = httpx.post(
            f"{scripted_cell.url}/client/v4/accounts/{scripted_cell.account}/ai/run/{KIMI}",
            headers={
                "Authorization": f"Bearer {scripted_cell.key}",
                "x-session-affinity": "ses_rest",
            },
            json={"messages": messages},
        )
        result = _result(answer.text)
        message = result["choices"][0]["message"]
        assert message["content"]
        counted.append(result["usage"])
        messages += [message, {"role": "user", "content": "And then?"}]
    for usage in counted:
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in counted]
    assert cached[0] == 0
    assert cached[1] > counted[0]["prompt_tokens"] // 2


@pytest.mark.parametrize("flag", ["?queueRequest=true", ""])
def test_queued_requests_are_found_by_polling(scripted_cell: ClientCell, flag: str) -> None:
    queued = _result(_type(scripted_cell, CURL_QUEUE))
    assert queued.keys() == {"status", "request_id", "model"}
    assert (queued["status"], queued["model"]) == ("queued", KIMI)

    def look() -> dict[str, Any] | None:
        request_id = queued["request_id"]
        polled = _result(_type(scripted_cell, CURL_POLL, REQUEST_ID=request_id, FLAG=flag))
        if "status" in polled:
            assert polled["status"] in {"queued", "running"}
            assert polled["request_id"] == request_id
            return None
        return polled

    done = until(look, JOB_SECONDS)
    assert done.keys() == {"responses", "usage"}
    items = sorted(done["responses"], key=lambda item: item["id"])
    assert [item["external_reference"] for item in items] == ["river", None, None]
    assert all(item["success"] for item in items)
    answers = [item["result"] for item in items]
    assert all(answer["choices"][0]["message"]["content"] for answer in answers)
    used = sum(answer["usage"]["total_tokens"] for answer in answers)
    assert done["usage"]["total_tokens"] == used


def test_asynchronous_header_answers_a_task_that_can_be_looked_up(
    scripted_cell: ClientCell,
) -> None:
    task = _result(_type(scripted_cell, CURL_ASYNC))["taskId"]

    def look() -> dict[str, Any] | None:
        found = _result(_type(scripted_cell, CURL_TASK, TASK_ID=task))
        assert found["taskId"] == task
        return found if "result" in found else None

    done = until(look, JOB_SECONDS)
    assert done["status"] == "succeeded"
    assert done["result"]["choices"][0]["message"]["content"]


def test_chat_completions_are_answered_bare(scripted_cell: ClientCell) -> None:
    answer = json.loads(_type(scripted_cell, CURL_CHAT))
    assert (answer["object"], answer["model"]) == ("chat.completion", KIMI)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_responses_take_an_effort_of_reasoning(scripted_cell: ClientCell) -> None:
    scripted_cell.forget()
    answer = json.loads(_type(scripted_cell, CURL_RESPONSES))
    _check_response(answer)
    (received,) = scripted_cell.requests()
    # It is stored, and so composed of a chat answer.
    assert received["body"]["reasoning_effort"] == "medium"


def test_responses_through_run_come_in_the_envelope(scripted_cell: ClientCell) -> None:
    command = CURL_RESPONSES.replace("ai/v1/responses", f"ai/run/{GPT_OSS}")
    _check_response(_result(_type(scripted_cell, command)))


def _check_response(answer: dict[str, Any]) -> None:
    assert (answer["object"], answer["status"]) == ("response", "completed")
    assert answer["model"] == GPT_OSS
    (message,) = [item for item in answer["output"] if item["type"] == "message"]
    assert message["content"][0]["text"]
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def _type(cell: ClientCell, command: str, **variables: str) -> str:
    """What a shell prints for these lines."""
    known = {"URL": cell.url, "KEY": cell.key, "ACCOUNT": cell.account}
    done = subprocess.run(
        ["bash", "-c", command],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **known, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _result(answer: str) -> dict[str, Any]:
    """What is in Workers AI's envelope. An answer to a submission has its id beside that."""
    envelope = json.loads(answer)
    task = envelope.pop("taskId", None)
    assert task is None or task in envelope["result"].values(), answer
    assert envelope.keys() == {"result", "success", "errors", "messages"}, answer
    assert (envelope["success"], envelope["errors"], envelope["messages"]) == (True, [], [])
    result: dict[str, Any] = envelope["result"]
    return result


def _events(stream: str) -> list[dict[str, Any]]:
    """The documents of a stream that ended as it should."""
    lines = [line for line in stream.splitlines() if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]", stream[-500:]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
