"""workers-ai-provider for the AI SDK: its host replaced by a `fetch` of ours, or on `AI.run`."""

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, KIMI, LLAMA, ClientCell
from tests.acceptance.client_run import ROOT, run_node

AI_RUN = ROOT / "examples" / "ai-run" / "ai-run.mjs"
HELLO = "Say hello to the people at the mill, and say it with as many words as you can find."
PROVIDERS = pytest.mark.parametrize("provider", ["workers", "binding"])
FAMILIES = pytest.mark.parametrize("model", [KIMI, LLAMA], ids=["openai", "native"])


def play(case: str, cell: ClientCell, provider: str, model: str, **more: str) -> Any:
    given = {"prompt": HELLO, "ai_run": str(AI_RUN), **more}
    return run_node("ai-sdk", cell, case=case, provider=provider, model=model, **given)


@PROVIDERS
@FAMILIES
def test_text_comes_with_usage(scripted_cell: ClientCell, provider: str, model: str) -> None:
    told = play("text", scripted_cell, provider, model)
    assert told["text"]
    assert told["finishReason"] == "stop"
    assert told["usage"]["totalTokens"] > told["usage"]["outputTokens"] > 0


@PROVIDERS
@pytest.mark.parametrize("model", [KIMI, LLAMA, GPT_OSS], ids=["openai", "native", "responses"])
def test_stream_is_asked_for_once(scripted_cell: ClientCell, provider: str, model: str) -> None:
    """Where a stream is answered with JSON, this client asks again without one."""
    whole = play("text", scripted_cell, provider, model)
    scripted_cell.forget()
    streamed = play("stream", scripted_cell, provider, model)
    assert streamed["text"] == whole["text"]
    assert streamed["pieces"] > 1
    address = f"/client/v4/accounts/{scripted_cell.account}/ai/run/{model}"
    assert streamed["sent"] == [{"address": address, "stream": True}]
    assert len(scripted_cell.requests()) == 1


@PROVIDERS
@FAMILIES
def test_usage_is_read_from_a_stream(scripted_cell: ClientCell, provider: str, model: str) -> None:
    usage = play("stream", scripted_cell, provider, model)["usage"]
    assert usage["totalTokens"] > usage["outputTokens"] > 0


@PROVIDERS
@FAMILIES
def test_tools_are_run_until_the_model_answers_in_words(
    scripted_cell: ClientCell, provider: str, model: str
) -> None:
    prompt = 'CALL read_level {"river":"Rhine"}'
    told = play("tools", scripted_cell, provider, model, prompt=prompt)
    assert told["asked"] == ["Rhine"]
    assert len(told["steps"]) == 2
    assert told["text"]


@PROVIDERS
@FAMILIES
def test_structured_output_is_parsed_by_its_schema(
    scripted_cell: ClientCell, provider: str, model: str
) -> None:
    output = play("structured", scripted_cell, provider, model)["output"]
    assert set(output) == {"river", "metres", "isRising"}


@PROVIDERS
@FAMILIES
def test_session_affinity_reads_cached_tokens(
    scripted_cell: ClientCell, provider: str, model: str
) -> None:
    session = f"ses_{provider}_{Path(model).name}"
    usages = play("conversation", scripted_cell, provider, model, session=session)["usages"]
    assert usages[1]["inputTokenDetails"]["cacheReadTokens"] > 0
    assert scripted_cell.session(session, 2)["turn_count"] == 2


@pytest.mark.parametrize(
    ("case", "model", "prompt", "status", "is_retryable", "code"),
    [
        ("error", "@cf/no/such", HELLO, 400, False, 5007),
        ("error", LLAMA, "water " * 20_000, 400, False, 5006),
        ("error", KIMI, '@script {"status": 500}', 500, True, 5001),
        ("stranger", KIMI, HELLO, 401, False, 10000),
    ],
    ids=["unknown model", "too long", "engine fails", "unknown key"],
)
def test_errors_say_the_internal_code_and_whether_to_retry(
    scripted_cell: ClientCell,
    case: str,
    model: str,
    prompt: str,
    status: int,
    is_retryable: bool,
    code: int,
) -> None:
    told = play(case, scripted_cell, "workers", model, prompt=prompt)
    assert told["name"] == "AI_APICallError"
    assert (told["status"], told["isRetryable"]) == (status, is_retryable)
    assert f'"code":{code}' in told["body"]


@FAMILIES
def test_stream_that_breaks_is_an_error(scripted_cell: ClientCell, model: str) -> None:
    told = play("brokenStream", scripted_cell, "workers", model, prompt='@script {"cut_after": 3}')
    assert told["finishReason"] == "error"
