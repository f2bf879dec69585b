"""How `penstock bench` reads an answer: its first token, its usage, its cost, how it ended."""

import json
from typing import Any

import pytest

from penstock.cli.bench.answer import OK, StreamedAnswer
from penstock.cli.bench.client import base_url
from penstock.cli.exit_codes import CommandFailed
from penstock.errors import ReplicaUnreachable
from penstock.records.usage import Usage
from penstock.testing.manual_clock import ManualClock

STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]
DONE = b"data: [DONE]\n\n"


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def token(text: str) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}}])


def answered(*pieces: bytes, bytes_max: int = 10_000) -> StreamedAnswer:
    answer = StreamedAnswer(ManualClock(), bytes_max)
    answer.on_head(200, STREAM)
    for piece in pieces:
        answer.on_body(piece)
    answer.on_complete()
    return answer


async def test_first_token_is_the_first_that_says_something() -> None:
    clock = ManualClock()
    answer = StreamedAnswer(clock, 10_000)
    answer.on_head(200, STREAM)
    began = clock.monotonic()
    answer.on_body(event(choices=[{"delta": {"role": "assistant", "content": ""}}]))
    clock.advance(2.0)
    answer.on_body(token("Hel"))
    clock.advance(1.0)
    answer.on_body(token("lo") + DONE)
    answer.on_complete()
    assert answer.first_at == began + 2.0
    assert answer.last_at == began + 3.0
    assert answer.text == "Hello"
    assert answer.code == OK


@pytest.mark.parametrize(
    "delta", [{"reasoning": "so"}, {"reasoning_content": "so"}, {"tool_calls": [{"index": 0}]}]
)
async def test_reasoning_and_tool_calls_are_tokens_too(delta: dict[str, Any]) -> None:
    answer = answered(event(choices=[{"delta": delta}]), DONE)
    assert answer.first_at is not None
    assert answer.text == ""


async def test_usage_and_cost_are_what_the_server_says() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    cost = b": cost-usd 0.000012345\n\n"
    answer = answered(token("a"), event(choices=[], usage=usage), cost, DONE)
    assert answer.usage == Usage(9, 2, 8)
    assert answer.cost_nanousd == 12_345


async def test_what_is_not_said_is_unknown() -> None:
    answer = answered(token("a"), DONE)
    assert answer.usage is None
    assert answer.cost_nanousd is None


async def test_events_may_be_cut_anywhere() -> None:
    stream = token("a") + b": keepalive\r\n\r\n" + token("b") + DONE
    answer = answered(*(stream[at : at + 1] for at in range(len(stream))))
    assert (answer.text, answer.code) == ("ab", OK)


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([token("a")], "cut"),
        ([event(error={"code": "engine_lost", "message": "gone"}), DONE], "stream engine_lost"),
        ([b"data: {no json\n\n", DONE], "not_json"),
        ([b"x" * 20_000], "too_large"),
    ],
)
async def test_stream_that_fails_says_how(pieces: list[bytes], code: str) -> None:
    assert answered(*pieces).code == code


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (429, b'{"error":{"code":"rate_limited","message":"slow"}}', "429 rate_limited"),
        (400, b'{"error":{"type":"BadRequestError","code":400}}', "400 BadRequestError"),
        (500, b'{"error":{"type":"ServerError"}}', "500 ServerError"),
        (502, b"<html>bad gateway", "502"),
        (200, b'{"choices":[]}', "not_a_stream"),
    ],
)
async def test_refusal_is_told_by_status_and_code(status: int, body: bytes, code: str) -> None:
    answer = StreamedAnswer(ManualClock(), 10_000)
    answer.on_head(status, [(b"content-type", b"application/json")])
    answer.on_body(body)
    answer.on_complete()
    assert answer.code == code


@pytest.mark.parametrize(("was_answered", "code"), [(True, "cut"), (False, "unreachable")])
async def test_lost_connection_is_a_cut_or_no_server(*, was_answered: bool, code: str) -> None:
    answer = StreamedAnswer(ManualClock(), 10_000)
    answer.on_lost(ReplicaUnreachable(), answered=was_answered)
    assert answer.code == code
    assert answer.ended.done()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787/v1"),
        ("http://127.0.0.1:8787/", "http://127.0.0.1:8787/v1"),
        ("https://host/v1/", "https://host/v1"),
        ("https://host/client/v4/accounts/a/ai/v1", "https://host/client/v4/accounts/a/ai/v1"),
    ],
)
def test_bare_address_gets_its_v1(given: str, url: str) -> None:
    assert base_url(given) == url


@pytest.mark.parametrize(
    "given", ["127.0.0.1:8787", "ftp://host", "http://", "http://h:x", "http://h/?a"]
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(CommandFailed, match="is no address"):
        base_url(given)
