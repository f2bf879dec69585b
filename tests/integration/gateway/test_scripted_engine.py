"""The scripted engine over real sockets: each directive does what it says."""

import base64
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from penstock.testing import ScriptedEngine

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(model="m") as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: ScriptedEngine) -> ScriptedEngine:
    """One engine for the tests that do not end it, behaving again for each."""
    shared_engine.control()
    return shared_engine


def _body(script: dict[str, Any] | None = None, **fields: object) -> dict[str, Any]:
    text = "hello" if script is None else f"hello\n@script {json.dumps(script)}"
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def _post(engine: ScriptedEngine, script: dict[str, Any] | None = None, **fields: object) -> Any:
    return httpx.post(engine.url + CHAT, json=_body(script, **fields), timeout=20)


def _events(text: str) -> list[str]:
    return [event.removeprefix("data: ") for event in text.split("\n\n") if event]


def _raw(engine: ScriptedEngine, body: dict[str, Any]) -> socket.socket:
    payload = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", engine.port), timeout=20)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: engine\r\ncontent-length: {len(payload)}\r\n\r\n"
    connection.sendall(head.encode() + payload)
    return connection


def _read_all(connection: socket.socket) -> tuple[list[bytes], str]:
    """What arrived, read by read, and how it ended."""
    reads: list[bytes] = []
    with connection:
        while True:
            try:
                data = connection.recv(65536)
            except ConnectionResetError:
                return reads, "reset"
            if not data:
                return reads, "closed"
            reads.append(data)
            if b"\r\n0\r\n\r\n" in b"".join(reads[-2:]):
                return reads, "complete"


def _until(engine: ScriptedEngine, **wanted: int) -> None:
    """Wait until the engine's state has these counts."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        state = engine.state()
        if all(getattr(state, name) == value for name, value in wanted.items()):
            return
        time.sleep(0.01)
    raise AssertionError(f"wanted {wanted}, is {engine.state()}")


def test_plain_pages_answer_like_vllm(engine: ScriptedEngine) -> None:
    assert httpx.get(engine.url + "/health").status_code == 200
    assert httpx.get(engine.url + "/version").json() == {"version": "0.32.0"}
    model = httpx.get(engine.url + "/v1/models").json()["data"][0]
    assert (model["id"], model["max_model_len"]) == ("m", 1_000_000)
    assert httpx.get(engine.url + "/nothing").status_code == 404
    assert httpx.get(engine.url + CHAT).status_code == 405


def test_a_stream_counts_what_it_sends(engine: ScriptedEngine) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = _post(engine, {"tokens": 5}, stream=True, stream_options=options)
    events = _events(answer.text)
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 1, 2, 3, 4, 5, 5]
    assert chunks[-1]["choices"] == []
    assert engine.state().requests_log[-1]["completion_tokens"] == 5


def test_the_request_id_is_in_the_answer_and_in_the_log(engine: ScriptedEngine) -> None:
    headers = {"x-request-id": "abc", "x-label": "seen"}
    answer = httpx.post(engine.url + CHAT, json=_body(), headers=headers)
    assert answer.json()["id"] == "chatcmpl-abc"
    last = engine.state().last_request
    assert last is not None
    assert (last["id"], last["headers"]["x-label"]) == ("chatcmpl-abc", "seen")
    assert json.loads(last["body"]) == _body()


def test_load_is_told_when_asked(engine: ScriptedEngine) -> None:
    asked = {"endpoint-load-metrics-format": "JSON"}
    answer = httpx.post(engine.url + CHAT, json=_body(), headers=asked)
    told = answer.headers["endpoint-load-metrics"].removeprefix("JSON ")
    assert json.loads(told)["named_metrics"]["num_requests_waiting"] == 0.0
    assert "endpoint-load-metrics" not in _post(engine).headers


def test_a_second_turn_shows_cached_tokens_for_the_same_salt_only(engine: ScriptedEngine) -> None:
    messages: list[dict[str, str]] = [{"role": "user", "content": "long " * 100}]

    def turn(salt: str) -> Any:
        body = {"model": "m", "messages": messages, "cache_salt": salt}
        return httpx.post(engine.url + CHAT, json=body).json()

    first = turn("a")
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    messages.append(first["choices"][0]["message"])
    messages.append({"role": "user", "content": "go on"})
    second = turn("a")["usage"]
    cached = second["prompt_tokens_details"]["cached_tokens"]
    assert first["usage"]["prompt_tokens"] - 16 < cached <= second["prompt_tokens"]
    assert turn("b")["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert "vllm:prefix_cache_hits_total" in httpx.get(engine.url + "/metrics").text


def test_tool_calls_are_streamed(engine: ScriptedEngine) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    answer = _post(engine, stream=True, tools=tools, tool_choice="required")
    deltas = [json.loads(event)["choices"][0] for event in _events(answer.text)[:-1]]
    assert deltas[1]["delta"]["tool_calls"][0]["function"] == {"name": "look"}
    assert deltas[2]["delta"]["tool_calls"][0]["function"] == {"arguments": "{}"}
    assert deltas[-1]["finish_reason"] == "tool_calls"


def test_status_answers_with_an_error(engine: ScriptedEngine) -> None:
    script = {"status": 503, "headers": {"retry-after": "3"}}
    for stream in (False, True):
        answer = _post(engine, script, stream=stream)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == 503
        assert answer.headers["retry-after"] == "3"


@pytest.mark.parametrize("stream", [False, True])
def test_a_stall_before_the_head_delays_the_head(engine: ScriptedEngine, stream: bool) -> None:
    began = time.monotonic()
    with _raw(engine, _body({"stall_before_head": 0.3}, stream=stream)) as connection:
        connection.recv(1)
    assert time.monotonic() - began >= 0.3


def test_a_stall_before_the_first_event_comes_after_the_head(engine: ScriptedEngine) -> None:
    with _raw(engine, _body({"stall_before_first": 0.4}, stream=True)) as connection:
        began = time.monotonic()
        assert connection.recv(65536).endswith(b"\r\n\r\n")
        assert time.monotonic() - began < 0.3
        connection.recv(65536)
        assert time.monotonic() - began >= 0.4


def test_a_stall_after_n_events_holds_the_rest(engine: ScriptedEngine) -> None:
    script = {"tokens": 6, "stall_after": [3, 0.4]}
    reads, _ = _read_all(_raw(engine, _body(script, stream=True)))
    assert b"".join(reads).count(b"data: ") == 8
    began = time.monotonic()
    with _raw(engine, _body({"stall_after": [3, None]}, stream=True)) as connection:
        received = b""
        while received.count(b"data: ") < 3:
            received += connection.recv(65536)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
    assert time.monotonic() - began < 5


def test_cuts_are_resets_after_exactly_n_events(engine: ScriptedEngine) -> None:
    reads, end = _read_all(_raw(engine, _body({"cut_before_head": True})))
    assert (reads, end) == ([], "reset")
    reads, end = _read_all(_raw(engine, _body({"cut_after": 3, "tokens": 9}, stream=True)))
    assert (b"".join(reads).count(b"data: "), end) == (3, "reset")
    assert engine.state().requests_log[-1]["completion_tokens"] == 2
    reads, end = _read_all(_raw(engine, _body({"cut_after": 10})))
    assert (len(b"".join(reads).partition(b"\r\n\r\n")[2]), end) == (10, "reset")


def test_close_after_ends_in_order_without_the_last_chunk(engine: ScriptedEngine) -> None:
    reads, end = _read_all(_raw(engine, _body({"close_after": 2, "tokens": 9}, stream=True)))
    assert (b"".join(reads).count(b"data: "), end) == (2, "closed")


def test_garbage_is_not_http(engine: ScriptedEngine) -> None:
    reads, end = _read_all(_raw(engine, _body({"garbage": True})))
    assert (reads[0].startswith(b"HTTP/"), end) == (False, "closed")
    exact = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"
    reads, end = _read_all(_raw(engine, _body({"raw": base64.b64encode(exact).decode()})))
    assert (b"".join(reads), end) == (exact, "closed")


def test_garbage_json_has_a_good_head(engine: ScriptedEngine) -> None:
    answer = _post(engine, {"garbage_json": True})
    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_a_garbage_event_comes_where_asked_and_the_stream_goes_on(engine: ScriptedEngine) -> None:
    answer = _post(engine, {"garbage_sse_after": 2, "tokens": 4}, stream=True)
    events = _events(answer.text)
    with pytest.raises(json.JSONDecodeError):
        json.loads(events[2])
    assert (len(events), events[-1]) == (7, "[DONE]")


def test_an_error_event_ends_the_stream(engine: ScriptedEngine) -> None:
    events = _events(_post(engine, {"error_after": 2, "tokens": 9}, stream=True).text)
    assert json.loads(events[2])["error"]["code"] == 500
    assert (len(events), events[-1]) == (4, "[DONE]")


@pytest.mark.parametrize(
    "shape",
    [{"split": 50}, {"split_at": [7, 300, 301]}, {"glue": True}, {"split": 50, "tokens": 3}],
)
def test_however_it_is_split_the_payload_is_the_same(
    engine: ScriptedEngine, shape: dict[str, Any]
) -> None:
    script = {"text": "naïve 日本 🌊 words", "no_done": False, **shape}
    answer = _post(engine, script, stream=True)
    pieces = [json.loads(event)["choices"][0]["delta"] for event in _events(answer.text)[:-1]]
    assert "".join(piece.get("content") or "" for piece in pieces) == "naïve 日本 🌊 words"


def test_split_glue_and_split_at_change_what_the_reader_sees(engine: ScriptedEngine) -> None:
    def reads(shape: dict[str, Any]) -> list[bytes]:
        script = {"tokens": 4, "split_pause": 0.02, **shape}
        received, end = _read_all(_raw(engine, _body(script, stream=True)))
        assert end == "complete"
        head, _, rest = received[0].partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        return [read for read in [rest, *received[1:]] if read and read != b"0\r\n\r\n"]

    assert len(reads({"glue": True})) == 1
    assert len(reads({"split_at": [7, 300, 301]})) == 4
    assert len(reads({"split": 100})) > 8


def test_a_slow_head_comes_byte_by_byte(engine: ScriptedEngine) -> None:
    reads, _ = _read_all(_raw(engine, _body({"slow_head": 0.002, "close_after": 0})))
    assert len(reads) > 50


def test_a_huge_line_is_one_event(engine: ScriptedEngine) -> None:
    events = _events(_post(engine, {"huge_line": 200_000}, stream=True).text)
    assert len(json.loads(events[1])["choices"][0]["delta"]["content"]) == 200_000


def test_usage_can_be_absent_or_a_lie(engine: ScriptedEngine) -> None:
    assert "usage" not in _post(engine, {"no_usage": True}).json()
    asked = {"include_usage": True, "continuous_usage_stats": True}
    silent = _post(engine, {"no_usage": True}, stream=True, stream_options=asked)
    assert "usage" not in silent.text
    lied = _post(engine, {"lie_usage": {"completion_tokens": -4}}).json()
    assert lied["usage"]["completion_tokens"] == -4


def test_interval_paces_streams_and_whole_answers(engine: ScriptedEngine) -> None:
    for stream in (False, True):
        began = time.monotonic()
        _post(engine, {"tokens": 6, "interval": 0.05}, stream=stream)
        assert time.monotonic() - began >= 0.25


@pytest.mark.parametrize("stream", [False, True])
def test_generation_stops_when_the_client_leaves(engine: ScriptedEngine, stream: bool) -> None:
    before = engine.state().aborted
    script = {"tokens": 10_000, "interval": 0.01}
    with _raw(engine, _body(script, stream=stream)):
        _until(engine, running=1)
    _until(engine, running=0, aborted=before + 1)
    entry = engine.state().requests_log[-1]
    assert entry["outcome"] == "aborted"
    assert entry["completion_tokens"] < 1000


def test_an_unknown_directive_is_an_error_that_is_seen(engine: ScriptedEngine) -> None:
    assert _post(engine, {"stal": 1}).status_code == 400
    with pytest.raises(ValueError, match="stal"):
        engine.control(stal=1)


def test_control_applies_to_the_next_requests_only(engine: ScriptedEngine) -> None:
    engine.control(status=500, times=2)
    assert [_post(engine).status_code for _ in range(3)] == [500, 500, 200]
    engine.control(text="always")
    assert _post(engine).json()["choices"][0]["message"]["content"] == "always"


def test_control_makes_it_unhealthy(engine: ScriptedEngine) -> None:
    engine.control(healthy=False)
    assert httpx.get(engine.url + "/health").status_code == 503
    engine.control()
    assert httpx.get(engine.url + "/health").status_code == 200


def test_a_request_it_cannot_digest_does_not_end_it(engine: ScriptedEngine) -> None:
    body = _body(tools=[{"type": "custom"}], tool_choice="required")
    assert httpx.post(engine.url + CHAT, json=body).status_code == 500
    assert _post(engine).status_code == 200


def test_pipelined_requests_are_answered_in_order(engine: ScriptedEngine) -> None:
    one = b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n"
    two = b"GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", engine.port), timeout=10) as connection:
        connection.sendall(one + two)
        received = b""
        while data := connection.recv(65536):
            received += data
    assert received.index(b"0.32.0") < received.index(b"Not Found")


def test_a_full_queue_is_503() -> None:
    with ScriptedEngine(model="m", slots=1, queue_limit=1) as engine:
        slow = _body({"tokens": 1000, "interval": 0.05}, stream=True)
        with _raw(engine, slow), _raw(engine, slow):
            _until(engine, running=1, waiting=1)
            refused = _post(engine)
            assert refused.status_code == 503
            assert "engine is currently busy" in refused.json()["error"]["message"]
            metrics = httpx.get(engine.url + "/metrics").text
            assert 'vllm:num_requests_waiting{engine="0",model_name="m"} 1.0' in metrics
        _until(engine, running=0, waiting=0, aborted=2)


@pytest.mark.parametrize("script", [{"die_before_head": True}, {"die_after": 2, "tokens": 9}])
def test_dying_is_like_kill_nine(script: dict[str, Any]) -> None:
    with ScriptedEngine(model="m") as engine:
        reads, end = _read_all(_raw(engine, _body(script, stream=True)))
        assert b"".join(reads).count(b"data: ") == script.get("die_after", 0)
        assert end in {"closed", "reset"}
        assert engine.wait() == -9


def test_it_ends_when_its_parent_is_gone() -> None:
    with ScriptedEngine(model="m") as engine:
        assert engine._process is not None
        assert engine._process.stdin is not None
        engine._process.stdin.close()
        assert engine.wait() == 1


def test_sigterm_lets_a_stream_end() -> None:
    with ScriptedEngine(model="m") as engine:
        connection = _raw(engine, _body({"tokens": 20, "interval": 0.03}, stream=True))
        _until(engine, running=1)
        engine.terminate()
        reads, end = _read_all(connection)
        assert b"data: [DONE]" in b"".join(reads)
        assert end == "complete"
        assert engine.wait() == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", engine.port), timeout=5)
