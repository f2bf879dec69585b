"""The cloudflare SDK for TypeScript: `ai.run` with models of both families, and the queue."""

from typing import Any

import pytest
from tests.acceptance.client_cell import KIMI, LLAMA, ClientCell
from tests.acceptance.client_run import run_node

HELLO = "Say hello to the people at the mill, and say it with as many words as you can find."
FAMILIES = pytest.mark.parametrize("model", [KIMI, LLAMA], ids=["openai", "native"])
CALL = 'CALL read_level {"river":"Rhine","metres":2}'


def play(case: str, cell: ClientCell, model: str, prompt: str = HELLO, **more: str) -> Any:
    return run_node("cloudflare", cell, case=case, model=model, prompt=prompt, **more)


def text_of(result: Any) -> Any:
    if "response" in result:
        return result["response"]
    return result["choices"][0]["message"]["content"]


@FAMILIES
def test_messages_and_a_prompt_are_answered_without_the_envelope(
    scripted_cell: ClientCell, model: str
) -> None:
    by_messages, by_prompt = (play(case, scripted_cell, model) for case in ("text", "prompt"))
    assert text_of(by_messages) == text_of(by_prompt) != ""
    assert by_prompt["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


@FAMILIES
def test_stream_goes_to_an_address_with_encoded_slashes(
    scripted_cell: ClientCell, model: str
) -> None:
    told = play("stream", scripted_cell, model)
    assert told["url"].endswith(f"/ai/run/{model.replace('/', '%2F')}")
    assert told["isDone"]
    pieces = [
        event["response"] if "response" in event else choice["delta"].get("content", "")
        for event in told["events"]
        for choice in event.get("choices", [None])
    ]
    assert "".join(pieces) == text_of(play("text", scripted_cell, model))


def test_tool_calls_keep_the_shape_of_the_family(scripted_cell: ClientCell) -> None:
    (call,) = play("flatTools", scripted_cell, LLAMA, CALL)["tool_calls"]
    assert call == {"name": "read_level", "arguments": {"river": "Rhine", "metres": 2}}
    answer = play("tools", scripted_cell, KIMI, CALL)["choices"][0]
    (call,) = answer["message"]["tool_calls"]
    assert call["function"] == {"name": "read_level", "arguments": CALL.split(maxsplit=2)[2]}
    assert answer["finish_reason"] == "tool_calls"


def test_bare_json_schema_is_kept_to(scripted_cell: ClientCell) -> None:
    assert set(text_of(play("structured", scripted_cell, LLAMA))) == {"river", "metres"}
    assert text_of(play("structured", scripted_cell, KIMI)).startswith('{"river":')


def test_second_turn_of_a_session_reads_cached_tokens(scripted_cell: ClientCell) -> None:
    usages = play("conversation", scripted_cell, KIMI, session="ses_cloudflare_node")
    assert usages[1]["prompt_tokens_details"]["cached_tokens"] > 0
    turns = scripted_cell.session("ses_cloudflare_node", 2)["turns"]
    assert [turn["prompt_tokens"] for turn in turns] == [usage["prompt_tokens"] for usage in usages]


@FAMILIES
def test_queued_requests_are_polled_until_they_are_answered(
    scripted_cell: ClientCell, model: str
) -> None:
    told = play("queue", scripted_cell, model)
    assert (told["queued"]["status"], told["queued"]["model"]) == ("queued", model)
    answers = sorted(told["found"]["responses"], key=lambda each: each["id"])
    assert [each["success"] for each in answers] == [True, True]
    assert [each["external_reference"] for each in answers] == ["first", None]
    assert all(text_of(each["result"]) for each in answers)
    assert "status" not in told["found"]


def test_models_are_listed(scripted_cell: ClientCell) -> None:
    assert {KIMI, LLAMA} <= set(play("models", scripted_cell, KIMI))


@pytest.mark.parametrize(
    ("case", "model", "prompt", "name", "status", "code"),
    [
        ("error", "@cf/no/such", HELLO, "BadRequestError", 400, 5007),
        ("error", LLAMA, "water " * 20_000, "BadRequestError", 400, 5006),
        ("error", KIMI, '@script {"status": 500}', "InternalServerError", 500, 5001),
        ("stranger", KIMI, HELLO, "AuthenticationError", 401, 10000),
    ],
    ids=["unknown model", "too long", "engine fails", "unknown key"],
)
def test_errors_are_its_own_classes_with_the_internal_code(
    scripted_cell: ClientCell,
    case: str,
    model: str,
    prompt: str,
    name: str,
    status: int,
    code: int,
) -> None:
    told = play(case, scripted_cell, model, prompt)
    assert (told["name"], told["status"]) == (name, status)
    assert [each["code"] for each in told["errors"]] == [code]
