"""The scripted engine's APIs beside chat, over real sockets: scripts, faults and the cache."""

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from penstock.testing import ScriptedEngine

RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
LAST = {RESPONSES: "response.completed", MESSAGES: "message_stop"}


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(model="m") as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: ScriptedEngine) -> ScriptedEngine:
    shared_engine.control()
    return shared_engine


@pytest.fixture(scope="module")
def embedder() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(model="m", runner="pooling") as engine:
        yield engine


def _body(path: str, text: str = "hello", script: dict[str, Any] | None = None) -> dict[str, Any]:
    text = text if script is None else f"{text}\n@script {json.dumps(script)}"
    if path == RESPONSES:
        return {"model": "m", "input": text}
    if path == MESSAGES:
        messages = [{"role": "user", "content": text}]
        return {"model": "m", "messages": messages, "max_tokens": 500}
    return {"model": "m", "prompt": text} if path == COMPLETIONS else {"model": "m", "input": text}


def _post(engine: ScriptedEngine, path: str, body: dict[str, Any], **headers: str) -> Any:
    return httpx.post(engine.url + path, json=body, headers=headers, timeout=20)


def _events(text: str) -> list[dict[str, Any]]:
    lines = [line for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
def test_a_stream_ends_with_its_own_last_event_and_no_done(
    engine: ScriptedEngine, path: str
) -> None:
    answer = _post(engine, path, {**_body(path, script={"tokens": 5}), "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "[DONE]" not in answer.text
    events = _events(answer.text)
    assert events[-1]["type"] == LAST[path]
    assert engine.state().requests_log[-1]["completion_tokens"] == 5
    silent = {**_body(path, script={"no_done": True}), "stream": True}
    assert LAST[path] not in _post(engine, path, silent).text


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
def test_a_cut_comes_after_exactly_n_events(engine: ScriptedEngine, path: str) -> None:
    body = {**_body(path, script={"cut_after": 6, "tokens": 9}), "stream": True}
    received: list[bytes] = []
    with (
        httpx.stream("POST", engine.url + path, json=body, timeout=20) as answer,
        pytest.raises(httpx.ReadError),
    ):
        received.extend(answer.iter_raw())
    assert b"".join(received).count(b"event: ") == 6
    assert engine.state().requests_log[-1]["outcome"] == "faulted"


def test_a_fault_in_the_stream_is_an_event_of_messages_and_an_early_end_of_responses(
    engine: ScriptedEngine,
) -> None:
    script = {"error_after": 4, "tokens": 9}
    told = _post(engine, MESSAGES, {**_body(MESSAGES, script=script), "stream": True}).text
    assert _events(told)[-1]["error"]["type"] == "internal_error"
    with pytest.raises(httpx.RemoteProtocolError):
        _post(engine, RESPONSES, {**_body(RESPONSES, script=script), "stream": True})


@pytest.mark.parametrize(
    ("path", "cached"),
    [
        (RESPONSES, lambda usage: usage["input_tokens_details"]["cached_tokens"]),
        (MESSAGES, lambda usage: usage["cache_read_input_tokens"]),
        (COMPLETIONS, lambda usage: usage["prompt_tokens_details"]["cached_tokens"]),
    ],
)
def test_a_prompt_hits_what_was_sent_before_with_the_same_salt_only(
    engine: ScriptedEngine, path: str, cached: Any
) -> None:
    body = _body(path, f"{path} " * 40)

    def hits(salt: str) -> int:
        return int(cached(_post(engine, path, {**body, "cache_salt": salt}).json()["usage"]))

    assert [hits("a"), hits("b")] == [0, 0]
    assert hits("a") > 64


def test_a_conversation_of_responses_goes_on_where_its_cache_is(engine: ScriptedEngine) -> None:
    items: list[dict[str, Any]] = [{"role": "user", "content": "long " * 100}]
    first = _post(engine, RESPONSES, {"model": "m", "input": items}).json()
    items += [*first["output"], {"role": "user", "content": "go on"}]
    usage = _post(engine, RESPONSES, {"model": "m", "input": items}).json()["usage"]
    cached = usage["input_tokens_details"]["cached_tokens"]
    assert first["usage"]["input_tokens"] - 16 < cached <= usage["input_tokens"]


def test_answers_are_named_as_in_vllm(engine: ScriptedEngine) -> None:
    named = {"x-request-id": "abc"}
    assert _post(engine, MESSAGES, _body(MESSAGES), **named).json()["id"] == "chatcmpl-abc"
    unheeded = _post(engine, RESPONSES, _body(RESPONSES), **named).json()["id"]
    assert unheeded.startswith("resp_")
    assert "abc" not in unheeded
    body = {**_body(RESPONSES), "request_id": "resp_mine"}
    assert _post(engine, RESPONSES, body).json()["id"] == "resp_mine"


def test_refusals_have_the_shape_of_the_api(engine: ScriptedEngine) -> None:
    wrong = {**_body(MESSAGES), "model": "x"}
    refused = _post(engine, MESSAGES, wrong)
    message = "The model `x` does not exist. Valid aliases: m."
    error = {"type": "NotFoundError", "message": message}
    assert (refused.status_code, refused.json()) == (404, {"type": "error", "error": error})
    malformed = _post(engine, MESSAGES, {"model": "m", "messages": []})
    assert malformed.json()["error"]["param"] == "body.max_tokens"
    status = {**_body(RESPONSES, script={"status": 503}), "stream": True}
    assert _post(engine, RESPONSES, status).json()["error"]["code"] == 503


def test_each_prompt_of_a_completion_gets_its_choices(engine: ScriptedEngine) -> None:
    body = {"model": "m", "prompt": ["one one one", "two"], "max_tokens": 3, "n": 2}
    answer = _post(engine, COMPLETIONS, body).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 4
    assert answer["usage"]["completion_tokens"] == 12


def _send(engine: ScriptedEngine, body: dict[str, Any], **headers: str) -> HTTPConnection:
    """Ask, and do not wait for the answer."""
    connection = HTTPConnection("127.0.0.1", engine.port, timeout=20)
    connection.request("POST", RESPONSES, json.dumps(body), headers)
    return connection


def _until(engine: ScriptedEngine, *outcomes: str) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        seen = [entry["outcome"] for entry in engine.state().requests_log]
        if seen == list(outcomes):
            return
        time.sleep(0.01)
    raise AssertionError(f"wanted {outcomes}, is {seen}")


def test_a_priority_in_the_head_comes_before_the_one_in_the_body() -> None:
    with ScriptedEngine(model="m", slots=1) as engine:
        slow = {**_body(RESPONSES, script={"tokens": 999, "interval": 0.1}), "stream": True}
        first = _send(engine, slow)
        _until(engine, "running")
        held = [_send(engine, {**slow, "priority": 1}, **{"x-vllm-priority": "9"})]
        _until(engine, "running", "waiting")
        held.append(_send(engine, {**slow, "priority": 5}, **{"x-vllm-priority": "soon"}))
        _until(engine, "running", "waiting", "waiting")
        first.close()
        _until(engine, "aborted", "waiting", "running")
        for connection in held:
            connection.close()


def test_an_engine_either_makes_text_or_vectors(
    engine: ScriptedEngine, embedder: ScriptedEngine
) -> None:
    assert _post(engine, EMBEDDINGS, _body(EMBEDDINGS)).status_code == 404
    for path in (RESPONSES, MESSAGES, COMPLETIONS, "/v1/chat/completions"):
        assert _post(embedder, path, _body(path)).status_code == 404
    answer = _post(embedder, EMBEDDINGS, {"model": "m", "input": ["four", "four four"]})
    told = answer.json()
    assert [row["index"] for row in told["data"]] == [0, 1]
    assert told["usage"]["prompt_tokens"] == told["usage"]["total_tokens"] == 4
    assert told["usage"]["prompt_tokens_details"] is None


def test_embeddings_follow_scripts_too(embedder: ScriptedEngine) -> None:
    def body(script: dict[str, Any]) -> dict[str, Any]:
        return _body(EMBEDDINGS, script=script)

    assert _post(embedder, EMBEDDINGS, body({"status": 500})).status_code == 500
    with pytest.raises(httpx.ReadError):
        _post(embedder, EMBEDDINGS, body({"cut_after": 30}))
    lied = _post(embedder, EMBEDDINGS, body({"lie_usage": {"prompt_tokens": -1}})).json()
    assert lied["usage"]["prompt_tokens"] == -1
