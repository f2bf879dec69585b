"""The openai and cloudflare SDKs, unchanged but for the base URL, against real weights."""

import json
import time
from collections.abc import Iterator

import cloudflare
import httpx
import openai
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell

HELLO = "Say hello in one short sentence."


@pytest.fixture
def openai_client(cell: Cell) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=cell.openai_url, api_key=cell.key, max_retries=0) as client:
        yield client


@pytest.fixture
def cloudflare_client(cell: Cell) -> Iterator[cloudflare.Cloudflare]:
    with cloudflare.Cloudflare(
        api_token=cell.key, base_url=cell.workers_url, max_retries=0
    ) as client:
        yield client


def test_openai_lists_and_answers(openai_client: openai.OpenAI) -> None:
    assert TEXT_MODEL in [model.id for model in openai_client.models.list()]
    assert openai_client.models.retrieve(TEXT_MODEL).id == TEXT_MODEL
    answer = openai_client.chat.completions.create(
        model=TEXT_MODEL, messages=[{"role": "user", "content": HELLO}], max_tokens=8
    )
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 8
    assert answer._request_id


def test_openai_streams_with_usage(openai_client: openai.OpenAI) -> None:
    stream = openai_client.chat.completions.create(
        model=TEXT_MODEL,
        messages=[{"role": "user", "content": HELLO}],
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    usage = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert len(usage) == 1
    assert usage[0].prompt_tokens_details is not None


def test_openai_raises_its_own_errors(cell: Cell, openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        openai_client.chat.completions.create(
            model="@cf/no/such", messages=[{"role": "user", "content": HELLO}]
        )
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        openai_client.chat.completions.create(
            model=TEXT_MODEL, messages=[{"role": "user", "content": "word " * 12_000}]
        )
    assert "maximum context length" in str(long.value)
    with (
        openai.OpenAI(base_url=cell.openai_url, api_key="psk_nobody", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_cloudflare_runs_a_model(cell: Cell, cloudflare_client: cloudflare.Cloudflare) -> None:
    result = cloudflare_client.ai.run(
        TEXT_MODEL,
        account_id=cell.account,
        messages=[{"role": "user", "content": HELLO}],
        max_tokens=8,
    )
    assert isinstance(result, dict)
    assert result["choices"][0]["message"]["content"]


def test_cloudflare_streams(cell: Cell, cloudflare_client: cloudflare.Cloudflare) -> None:
    with cloudflare_client.ai.with_streaming_response.run(
        TEXT_MODEL, account_id=cell.account, prompt=HELLO, max_tokens=8, stream=True
    ) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[0].removeprefix("data: "))["object"] == "chat.completion.chunk"


def test_cloudflare_raises_its_own_errors(
    cell: Cell, cloudflare_client: cloudflare.Cloudflare
) -> None:
    with pytest.raises(cloudflare.BadRequestError) as unknown:
        cloudflare_client.ai.run("@cf/no/such", account_id=cell.account, prompt=HELLO)
    assert unknown.value.errors[0].code == 5007
    with pytest.raises(cloudflare.PermissionDeniedError):
        cloudflare_client.ai.run(TEXT_MODEL, account_id="somebody-else", prompt=HELLO)


def running(cell: Cell) -> float:
    """Requests that the engine itself says it is running or holding."""
    page = httpx.get(f"{cell.engine(TEXT_MODEL).url}/metrics", timeout=30).text
    names = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(names)
    )


def test_engine_stops_within_two_seconds_of_the_client_leaving(
    cell: Cell, openai_client: openai.OpenAI
) -> None:
    stream = openai_client.chat.completions.create(
        model=TEXT_MODEL,
        messages=[{"role": "user", "content": "Tell a very long story."}],
        max_tokens=2000,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    assert running(cell) >= 1
    stream.close()
    left = time.monotonic()
    while running(cell):
        assert time.monotonic() - left < 2
        time.sleep(0.1)
