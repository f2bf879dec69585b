"""Vercel's AI SDK with its OpenAI-compatible provider, and with OpenAI's own on both its APIs."""

from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, KIMI, LLAMA, ClientCell
from tests.acceptance.client_run import run_node

HELLO = "Say hello to the people at the mill, and say it with as many words as you can find."
# `createOpenAI(…)(model)` speaks Responses; `.chat(model)` does not.
MODELS = {"compatible": KIMI, "chat": KIMI, "responses": GPT_OSS}
PROVIDERS = pytest.mark.parametrize("provider", list(MODELS))


def play(case: str, cell: ClientCell, provider: str, prompt: str = HELLO, **more: str) -> Any:
    given = {"model": MODELS[provider], "provider": provider, **more}
    return run_node("ai-sdk", cell, case=case, prompt=prompt, **given)


@PROVIDERS
def test_stream_is_the_same_text_in_pieces_with_usage(
    scripted_cell: ClientCell, provider: str
) -> None:
    scripted_cell.forget()
    whole, streamed = (play(case, scripted_cell, provider) for case in ("text", "stream"))
    assert whole["text"] == streamed["text"] != ""
    assert streamed["pieces"] > 1
    assert whole["finishReason"] == streamed["finishReason"] == "stop"
    assert streamed["usage"]["inputTokenDetails"]["cacheReadTokens"] > 0
    for name in ("inputTokens", "outputTokens", "totalTokens"):
        assert whole["usage"][name] == streamed["usage"][name] > 0
    assert len(scripted_cell.requests()) == 2


@PROVIDERS
def test_tools_are_run_until_the_model_answers_in_words(
    scripted_cell: ClientCell, provider: str
) -> None:
    told = play("tools", scripted_cell, provider, 'CALL read_level {"river":"Rhine"}')
    assert told["asked"] == ["Rhine"]
    assert told["steps"] == ["tool-calls", "stop"]
    assert told["text"]


@PROVIDERS
def test_structured_output_is_parsed_by_its_schema(
    scripted_cell: ClientCell, provider: str
) -> None:
    scripted_cell.forget()
    output = play("structured", scripted_cell, provider)["output"]
    assert set(output) == {"river", "metres", "isRising"}
    (received,) = scripted_cell.requests()
    body = received["body"]
    wish = body["text"]["format"] if provider == "responses" else body["response_format"]
    assert wish["type"] == "json_schema"


@PROVIDERS
def test_second_turn_of_a_session_reads_cached_tokens(
    scripted_cell: ClientCell, provider: str
) -> None:
    session = f"ses_ai_sdk_{provider}"
    usages = play("conversation", scripted_cell, provider, session=session)["usages"]
    assert usages[1]["inputTokenDetails"]["cacheReadTokens"] > 0
    turns = scripted_cell.session(session, 2)["turns"]
    assert [turn["cached_tokens"] for turn in turns] == [
        usage["inputTokenDetails"]["cacheReadTokens"] for usage in usages
    ]


@PROVIDERS
@pytest.mark.parametrize(
    ("case", "model", "prompt", "status", "is_retryable"),
    [
        ("error", "@cf/no/such", HELLO, 404, False),
        ("error", LLAMA, "water " * 20_000, 400, False),
        ("error", KIMI, '@script {"status": 500}', 502, True),
        ("stranger", KIMI, HELLO, 401, False),
    ],
    ids=["unknown model", "too long", "engine fails", "unknown key"],
)
def test_errors_say_whether_to_retry(
    scripted_cell: ClientCell,
    provider: str,
    case: str,
    model: str,
    prompt: str,
    status: int,
    is_retryable: bool,
) -> None:
    told = play(case, scripted_cell, provider, prompt, model=model)
    assert told["name"] == "AI_APICallError"
    assert (told["status"], told["isRetryable"]) == (status, is_retryable)


@PROVIDERS
@pytest.mark.parametrize("fault", ["error_after", "cut_after"])
def test_stream_that_breaks_is_an_error(
    scripted_cell: ClientCell, provider: str, fault: str
) -> None:
    told = play("brokenStream", scripted_cell, provider, f'@script {{"{fault}": 3}}')
    assert told["finishReason"] == "error"
    assert len(told["errors"]) == 1
