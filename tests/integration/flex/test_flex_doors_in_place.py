"""`service_tier: "flex"` and `Prefer: respond-async`: a job behind an ordinary request."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import (
    CHAT,
    NATIVE,
    PLAIN,
    Cell,
    CellFactory,
    chat_body,
    events_of,
    prompt,
)
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.job_runner import JobRunner
from tests.integration.cells.raw_client import RawClient, post_bytes

_V1 = "/v1/chat/completions"
_ASYNC = {"prefer": "respond-async"}


@pytest.fixture(scope="module")
def flex(cells: CellFactory) -> Iterator[tuple[Cell, JobRunner]]:
    settings = {"ingress.keepalive_seconds": 0.3, "ingress.job_poll_seconds": 0.05}
    with cells.open(settings) as cell:
        # No replica: what is queued needs none to be ready.
        engine = cell.set_up()
        with JobRunner(cell, engine.url) as runner:
            yield cell, runner


@pytest.fixture
def runner(flex: tuple[Cell, JobRunner]) -> Iterator[JobRunner]:
    yield flex[1]
    flex[1].go_on()


@pytest.fixture
def cell(flex: tuple[Cell, JobRunner]) -> Cell:
    return flex[0]


@pytest.fixture
def client(cell: Cell) -> Iterator[openai.OpenAI]:
    url = f"{cell.gateway.url}/v1"
    with openai.OpenAI(base_url=url, api_key=cell.key, max_retries=0) as client:
        yield client


def _state(cell: Cell, job: str) -> str:
    state: str = cell.get(f"/v1/jobs/{job}").json()["state"]
    return state


def test_flex_answers_in_place(client: openai.OpenAI, cell: Cell) -> None:
    answer = client.chat.completions.with_raw_response.create(
        model=CHAT, messages=[{"role": "user", "content": "hello"}], service_tier="flex"
    )
    completion = answer.parse()
    assert completion.choices[0].message.content
    assert completion.service_tier == "flex"
    assert completion.usage is not None
    # Half of what the same tokens cost now, by the price book.
    tokens = (completion.usage.prompt_tokens, completion.usage.completion_tokens)
    nanousd = (tokens[0] * 600 + tokens[1] * 3000) // 2
    assert answer.headers["x-penstock-cost-usd"] == f"0.{nanousd:09d}"
    job = cell.get(f"/v1/jobs/{answer.headers['x-request-id']}").json()
    assert job["state"] == "succeeded"
    assert job["cost_usd"] == answer.headers["x-penstock-cost-usd"]


def test_flex_streams_the_whole_answer(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=CHAT,
            messages=[{"role": "user", "content": prompt({"text": "so be it"})[0]["content"]}],
            service_tier="flex",
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "so be it"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert [c.usage.completion_tokens for c in chunks if c.usage] != []
    assert chunks[0].service_tier == "flex"


def test_flex_streams_tool_calls_that_the_sdk_puts_together(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model=CHAT,
        messages=[{"role": "user", "content": "hello"}],
        tools=[{"type": "function", "function": {"name": "look", "parameters": {}}}],
        tool_choice="required",
        service_tier="flex",
    ) as stream:
        final = stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls
    assert calls[0].function.name == "look"
    assert json.loads(calls[0].function.arguments) == {}


def test_a_stream_that_waits_is_held_open_by_comments(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(service_tier="flex", stream=True), cell.key))
        client.read_until(b": keepalive\n\n")
        runner.go_on()
        client.read_until(b"data: [DONE]")


def test_flex_is_the_same_on_workers_ai(cell: Cell) -> None:
    body = chat_body(service_tier="flex")
    answer = cell.post(cell.path("v1/chat/completions"), body)
    assert answer.json()["service_tier"] == "flex"
    answer = cell.run_model(CHAT, {"messages": prompt(), "service_tier": "flex"})
    assert answer.json()["result"]["service_tier"] == "flex"
    wanted = {"response_format": {"type": "json_object"}, "service_tier": "flex"}
    answer = cell.run_model(NATIVE, {"messages": prompt(), **wanted})
    assert isinstance(answer.json()["result"]["response"], dict)
    answer = cell.run_model(NATIVE, {"prompt": "x", "service_tier": "flex", "stream": True})
    chunks = [json.loads(event) for event in events_of(answer.text)[:-1]]
    assert "".join(chunk["response"] for chunk in chunks)


def test_other_tiers_are_wanted_now(cell: Cell) -> None:
    # There is no replica here, so what is wanted now is refused.
    for tier in ("auto", "default", "priority", None):
        check_openai(
            cell.chat(chat_body(service_tier=tier)), 503, "no_replica", retry=True, retry_after=True
        )
    check_openai(cell.chat(chat_body(service_tier=3)), 400, "invalid_request")


def test_a_model_without_the_queue_is_refused_by_name(cell: Cell) -> None:
    answer = cell.chat(chat_body(PLAIN, service_tier="flex"))
    assert "async_queue" in check_openai(answer, 400, "missing_capability")
    answer = cell.post(_V1, chat_body(PLAIN), headers=_ASYNC)
    assert "async_queue" in check_openai(answer, 400, "missing_capability")


def test_a_failed_job_is_told_as_the_live_path_would(cell: Cell) -> None:
    broken = chat_body(CHAT, {"status": 500}, service_tier="flex")
    check_openai(cell.chat(broken), 502, "engine_failed")
    body = {"messages": prompt({"status": 500}), "service_tier": "flex"}
    check_envelope(cell.run_model(CHAT, body), 500, 5001)
    answer = cell.chat({**broken, "stream": True})
    assert answer.status_code in (200, 502)
    assert "engine_failed" in answer.text


def test_a_caller_that_leaves_gives_its_job_up(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    before = {job["id"] for job in cell.get("/v1/jobs?state=queued").json()["data"]}
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(service_tier="flex"), cell.key))

        def queued() -> set[str]:
            found = cell.get("/v1/jobs?state=queued").json()["data"]
            return {job["id"] for job in found} - before

        eventually(lambda: len(queued()) == 1)
        (job,) = queued()
    eventually(lambda: _state(cell, job) == "cancelled")


def test_a_caller_with_a_key_may_come_back_for_its_answer(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    key = {"idempotency-key": f"come-back-{time.monotonic()}"}
    body = chat_body(service_tier="flex")
    url, headers = cell.gateway.url + _V1, {**cell.authorization(), **key}
    with (
        httpx.Client(timeout=0.7, trust_env=False) as impatient,
        pytest.raises(httpx.ReadTimeout),
    ):
        impatient.post(url, json=body, headers=headers)
    ran = len(runner.ran)
    runner.go_on()
    assert cell.post(_V1, body, headers=key).status_code == 200
    assert cell.post(_V1, body, headers=key).status_code == 200
    assert len(runner.ran) == ran + 1


def test_prefer_answers_at_once_when_it_is_done_in_time(cell: Cell) -> None:
    headers = {"prefer": "respond-async, wait=20"}
    answer = cell.post(_V1, chat_body(), headers=headers)
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=20"
    assert answer.json()["choices"]
    streamed = cell.post(_V1, chat_body(stream=True), headers=headers)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert events_of(streamed.text)[-1] == "[DONE]"
    failed = cell.post(_V1, chat_body(CHAT, {"status": 500}), headers=headers)
    check_openai(failed, 502, "engine_failed")


def test_prefer_answers_202_with_where_to_look(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    for prefer in ("respond-async", "respond-async, wait=1"):
        answer = cell.post(_V1, chat_body(), headers={"prefer": prefer})
        assert answer.status_code == 202
        assert answer.headers["preference-applied"] == prefer
        assert int(answer.headers["retry-after"]) >= 1
        job = answer.json()
        assert (job["object"], job["state"]) == ("job", "queued")
        assert job["position"] >= 1
        assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
        assert answer.headers["x-request-id"] == job["id"]
    runner.go_on()
    eventually(lambda: _state(cell, job["id"]) == "succeeded")
    done = cell.get(answer.headers["location"]).json()
    assert done["result"]["choices"][0]["message"]["content"]
    assert done["usage"]["total_tokens"] > 0
    assert done["attempts"] == 1


def test_prefer_on_workers_ai_is_in_the_envelope(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    answer = cell.post(cell.path(f"run/{CHAT}"), {"prompt": "x"}, headers=_ASYNC)
    assert answer.status_code == 202
    assert answer.json()["result"]["state"] == "queued"


def test_prefer_with_a_key_finds_the_job_again(cell: Cell) -> None:
    headers = {**_ASYNC, "idempotency-key": f"prefer-{time.monotonic()}"}
    first = cell.post(_V1, chat_body(), headers=headers)
    assert first.status_code == 202
    job = first.json()["id"]
    eventually(lambda: _state(cell, job) == "succeeded")
    again = cell.post(_V1, chat_body(), headers=headers)
    assert again.status_code == 200
    assert again.json()["choices"]


def test_a_large_prompt_and_answer_go_through_object_storage(cell: Cell) -> None:
    text = "long " * 40_000
    body: dict[str, Any] = {
        "model": CHAT,
        "messages": [{"role": "user", "content": text}, *prompt({"text": "y" * 100_000})],
        "service_tier": "flex",
    }
    answer = cell.chat(body)
    assert answer.json()["choices"][0]["message"]["content"] == "y" * 100_000


def test_many_wait_with_one_question(cell: Cell) -> None:
    answers: list[httpx.Response] = []

    def ask() -> None:
        with httpx.Client(timeout=30, trust_env=False) as client:
            url = cell.gateway.url + _V1
            body = chat_body(service_tier="flex")
            answers.append(client.post(url, json=body, headers=cell.authorization()))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [200] * 20


def test_waits_are_bounded_before_anything_is_queued(cells: CellFactory) -> None:
    with cells.open({"ingress.job_waits_max": 1}) as cell:
        cell.set_up()
        with RawClient(cell.gateway.port) as first:
            first.send(post_bytes(_V1, chat_body(service_tier="flex"), cell.key))
            eventually(lambda: len(cell.get("/v1/jobs").json()["data"]) == 1)
            answer = cell.chat(chat_body(service_tier="flex"))
            check_openai(answer, 503, "overloaded", retry=True, retry_after=True)
            assert len(cell.get("/v1/jobs").json()["data"]) == 1


def test_doors_can_be_shut(cells: CellFactory) -> None:
    with cells.open({"ingress.flex": "false"}) as cell:
        cell.set_up(CHAT)
        check_openai(cell.chat(chat_body(service_tier="flex")), 400, "invalid_request")
        check_envelope(cell.run_model(f"{CHAT}?queueRequest=true", {"prompt": "x"}), 400, 5006)
        assert cell.chat(chat_body()).status_code == 200
