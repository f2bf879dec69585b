"""What an engine's own error answers mean: whose fault it was, and whether another may try."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.refusal import error_for
from penstock.errors import (
    EngineFailed,
    Error,
    InvalidRequest,
    OutOfCapacity,
    PromptTooLong,
    Unavailable,
)

TOO_LONG = (
    b'{"error":{"message":"This model\'s maximum context length is 8192 tokens.",'
    b'"type":"BadRequestError","param":"input_tokens","code":400}}'
)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_engines_refusal_of_the_request_is_the_callers_with_the_engines_words(status: int) -> None:
    error = error_for(status, TOO_LONG)
    assert isinstance(error, InvalidRequest)
    assert error.message.endswith("This model's maximum context length is 8192 tokens.")
    assert error.param == "input_tokens"
    assert not error.retryable


@pytest.mark.parametrize(
    "answer",
    [
        TOO_LONG,
        b'{"error":{"message":"The maximum context length is 5 tokens.","param":null}}',
        b'{"error":{"message":"Too long.","param":"input_tokens"}}',
        b'{"message":"Input (9 tokens) is longer than the model\'s context length (5 tokens)."}',
        b'{"error":{"message":"the request exceeds the available context size (5 tokens)"}}',
    ],
)
def test_prompt_that_is_too_long_is_told_by_openais_code(answer: bytes) -> None:
    error = error_for(400, answer)
    assert isinstance(error, PromptTooLong)
    assert error.code == "context_length_exceeded"


def test_message_without_an_error_object_is_found() -> None:
    assert error_for(400, b'{"object":"error","message":"no"}').message == "no"


@pytest.mark.parametrize("status", [404, 405])
def test_path_that_the_engine_does_not_have_is_told_as_that(status: int) -> None:
    error = error_for(status, b"404 page not found")
    assert isinstance(error, InvalidRequest)
    assert "does not serve this API" in error.message


def test_busy_engine_is_out_of_capacity_and_may_be_retried_elsewhere() -> None:
    error = error_for(503, b"")
    assert isinstance(error, OutOfCapacity)
    assert isinstance(error, Unavailable)
    assert error.retryable
    assert error.retry_after_seconds is not None


@pytest.mark.parametrize("status", [500, 502, 504, 401, 403, 429, 301, 204, 999])
def test_everything_else_is_the_engines_failure_and_is_not_run_again(status: int) -> None:
    error = error_for(status, TOO_LONG)
    assert isinstance(error, EngineFailed)
    assert not error.retryable
    assert str(status) in error.message


def test_engines_inner_words_are_not_told_when_it_failed() -> None:
    body = b'{"error":{"message":"CUDA error at /opt/secret/path: prompt was ..."}}'
    assert "secret" not in error_for(500, body).message


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"error":"x"}', b"[" * 5000])
def test_body_of_any_shape_gives_a_message(body: bytes) -> None:
    assert error_for(400, body).message


def test_very_long_message_is_cut() -> None:
    body = json.dumps({"error": {"message": "x" * 10**6}}).encode()
    assert 100 < len(error_for(400, body).message) < 10_000


@settings(max_examples=80, deadline=None)
@given(st.integers(100, 999), st.binary(max_size=60))
def test_any_answer_that_is_not_200_is_one_of_our_errors(status: int, body: bytes) -> None:
    error = error_for(status, body)
    assert isinstance(error, Error)
    assert error.message
