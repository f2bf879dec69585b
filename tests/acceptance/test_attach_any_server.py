"""`penstock up --attach` to servers that are not vLLM, and to addresses that are no engine."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.acceptance.cli_run import Up, free_port, run_json, run_up, until
from tests.acceptance.openai_servers import (
    LLAMA_CPP,
    OLLAMA,
    PROMPT_TOKENS,
    SGLANG,
    WORDS,
    serving,
)

ANSWER = "".join(WORDS)
MODELS = ["llama3.2:latest", "qwen3:0.6b", "smol.gguf", "acme/sglang-model"]
REFUSED_SECONDS_MAX = 10.0


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, dict[str, Any]]]:
    """One cell with all three servers. The first address is written as clients write it."""
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(shape)) for shape in (OLLAMA, LLAMA_CPP, SGLANG)]
        urls[0] += "/v1"
        options = [word for url in urls for word in ("--attach", url)]
        up = Up(tmp_path_factory.mktemp("attached") / "state", *options, "--json")
        stack.callback(up.close)
        yield up, up.ready()


@pytest.fixture(scope="module")
def client(attached: tuple[Up, dict[str, Any]]) -> openai.OpenAI:
    ready = attached[1]
    return openai.OpenAI(base_url=f"{ready['base_url']}/v1", api_key=ready["key"], max_retries=0)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_of_every_server_answers_with_its_usage(
    client: openai.OpenAI, model: str
) -> None:
    asked: Any = [{"role": "user", "content": "What is the capital of France?"}]
    whole = client.chat.completions.create(model=model, messages=asked)
    assert whole.choices[0].message.content == ANSWER
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (PROMPT_TOKENS, len(WORDS))

    chunks = list(client.chat.completions.create(model=model, messages=asked, stream=True))
    assert "".join(each.choices[0].delta.content or "" for each in chunks) == ANSWER
    assert all(each.usage is None for each in chunks), "nobody asked for it"

    options: Any = {"include_usage": True}
    counted = list(
        client.chat.completions.create(
            model=model, messages=asked, stream=True, stream_options=options
        )
    )
    last = counted[-1].usage
    assert last is not None
    assert (last.prompt_tokens, last.completion_tokens) == (PROMPT_TOKENS, len(WORDS))


@pytest.mark.parametrize("model", MODELS)
def test_every_model_of_every_server_speaks_responses(client: openai.OpenAI, model: str) -> None:
    whole = client.responses.create(model=model, input="What is the capital of France?")
    assert whole.output_text == ANSWER
    with client.responses.stream(model=model, input="What is the capital of France?") as stream:
        list(stream)
        streamed = stream.get_final_response()
    assert streamed.output_text == ANSWER
    for response in (whole, streamed):
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (
            PROMPT_TOKENS,
            len(WORDS),
        )


def test_what_was_counted_is_in_the_ledger_and_what_is_missing_is_said_once(
    attached: tuple[Up, dict[str, Any]], client: openai.OpenAI
) -> None:
    up, ready = attached
    assert ready["models"] == MODELS
    said = "".join(up.err)
    assert said.count("is not vLLM") == 3
    assert "accounts share its cache" in said
    model = MODELS[1]
    asked: Any = [{"role": "user", "content": "Hi"}]
    stream = client.chat.completions.create(model=model, messages=asked, stream=True)
    list(stream)
    row = until(lambda: _row(up.state, model), 20.0)
    assert row["output_tokens"] == row["requests"] * len(WORDS)
    checks = run_json(up.state, "doctor")
    assert not [each for each in checks if each["verdict"] == "fail"]


def test_an_api_that_the_server_lacks_is_refused_in_words(
    attached: tuple[Up, dict[str, Any]],
) -> None:
    ready = attached[1]
    answer = httpx.post(
        f"{ready['base_url']}/v1/completions",
        headers={"authorization": f"Bearer {ready['key']}"},
        json={"model": MODELS[0], "prompt": "hi"},
    )
    assert answer.status_code == 400
    assert "does not serve" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["", "/v1"])
def test_what_is_no_engine_is_refused_soon(tmp_path: Path, path: str) -> None:
    began = time.monotonic()
    failed = run_up(tmp_path / "state", "--attach", f"http://127.0.0.1:{free_port()}{path}")
    assert failed.returncode == 1
    assert time.monotonic() - began < REFUSED_SECONDS_MAX


def _row(state: Path, model: str) -> dict[str, Any] | None:
    rows: list[dict[str, Any]] = run_json(state, "usage", "--group-by", "model")["rows"]
    return next((row for row in rows if row["labels"]["model"] == model), None)
