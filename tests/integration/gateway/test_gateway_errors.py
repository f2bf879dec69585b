"""The error table, row by row: status and number on `/ai/*`, and where it differs on `/v1`.

Rows that need a gateway with limits of its own are in test_gateway_limits, _capacity, _timeouts and
_shutdown.
"""

import httpx
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai, check_request_id
from tests.integration.cells.gateway_cell import (
    ABSENT,
    CHAT,
    NATIVE,
    PLAIN,
    PRIVATE,
    Cell,
    chat_body,
    prompt,
)

from penstock import errors
from penstock.errors import Error
from penstock.ingress import error_response
from penstock.testing import ScriptedEngine

_IMAGE = "data:image/png;base64,{data}"


def _with_image(url: str) -> dict[str, object]:
    part = {"type": "image_url", "image_url": {"url": url}}
    return {"messages": [{"role": "user", "content": [part]}]}


def test_error_5007_unknown_model_on_run(cell: Cell) -> None:
    message = check_envelope(cell.run_model("@cf/test/nobody", {"prompt": "x"}), 400, 5007)
    assert "@cf/test/nobody" in message
    check_envelope(cell.post(cell.path("run"), {"model": "nobody", "input": {}}), 400, 5007)


def test_error_5007_unknown_model_on_chat_is_404_on_v1(cell: Cell) -> None:
    body = chat_body("@cf/test/nobody")
    check_envelope(cell.post(cell.path("v1/chat/completions"), body), 400, 5007)
    check_openai(cell.chat(body), 404, "model_not_found")


def test_error_3042_malformed_model(cell: Cell) -> None:
    check_envelope(cell.run_model("@cf/test/%20%20", {"prompt": "x"}), 404, 3042)
    check_envelope(cell.run_model("a//b", {"prompt": "x"}), 404, 3042)
    check_envelope(cell.run_model("x" * 300, {"prompt": "x"}), 404, 3042)
    check_envelope(cell.run_model("%FF%FE", {"prompt": "x"}), 404, 3042)
    check_openai(cell.chat(chat_body("no model!")), 404, "malformed_model")


def test_error_5004_bad_base64(cell: Cell) -> None:
    body = _with_image(_IMAGE.format(data="!!!!"))
    check_envelope(cell.run_model(CHAT, body), 400, 5004)
    check_openai(cell.chat({"model": CHAT, **body}), 400, "bad_base64")
    message = check_envelope(cell.run_model(CHAT, _with_image("data:text/plain,hi")), 400, 5004)
    assert "text/plain" in message


def test_error_3003_missing_body(cell: Cell) -> None:
    check_envelope(cell.run_model(CHAT, b""), 400, 3003)
    check_openai(cell.post("/v1/chat/completions", b""), 400, "missing_body")


def test_error_5018_private_model(cell: Cell, engine: ScriptedEngine) -> None:
    """3041 stands in the same row of the table and says the same: one of the two is enough."""
    before = engine.state().requests
    check_envelope(cell.run_model(PRIVATE, {"prompt": "x"}), 403, 5018)
    check_openai(cell.chat(chat_body(PRIVATE)), 403, "model_not_allowed")
    assert engine.state().requests == before


def test_error_5005_lora_unsupported(cell: Cell) -> None:
    message = check_envelope(cell.run_model(NATIVE, {"prompt": "x", "lora": "mine"}), 405, 5005)
    assert NATIVE in message


def test_error_10000_unauthenticated(cell: Cell) -> None:
    url = cell.gateway.url
    for headers in ({}, {"authorization": "Bearer psk_unknown"}, {"authorization": "Basic eDp5"}):
        target = url + cell.path(f"run/{CHAT}")
        answer = cell.client.post(target, json={"prompt": "x"}, headers=headers)
        check_envelope(answer, 401, 10000)
        assert answer.headers["www-authenticate"] == "Bearer"
        answer = cell.client.post(f"{url}/v1/chat/completions", json=chat_body(), headers=headers)
        check_openai(answer, 401, "unauthenticated")


def test_error_10000_another_account_in_the_path(cell: Cell) -> None:
    path = f"/client/v4/accounts/{'f' * 32}/ai/run/{CHAT}"
    check_envelope(cell.post(path, {"prompt": "x"}), 403, 10000)


def test_error_10000_operator_keys_do_not_infer(cell: Cell) -> None:
    headers = {"authorization": f"Bearer {cell.operator_key}"}
    answer = cell.post(cell.path(f"run/{CHAT}"), {"prompt": "x"}, headers=headers)
    check_envelope(answer, 403, 10000)
    answer = cell.post("/v1/chat/completions", chat_body(), headers=headers)
    check_openai(answer, 403, "forbidden")


def test_error_7000_no_such_path(cell: Cell) -> None:
    check_envelope(cell.post(cell.path("runner"), {}), 404, 7000)
    check_envelope(cell.post(cell.path("elsewhere"), {}), 404, 7000)
    check_envelope(cell.get(cell.path("nothing")), 404, 7000)
    check_openai(cell.post("/v1/nothing", {}), 404, "not_found")
    check_openai(cell.get("/nothing"), 404, "not_found")


def test_error_7001_wrong_method(cell: Cell) -> None:
    check_envelope(cell.get(cell.path(f"run/{CHAT}")), 405, 7001)
    check_envelope(cell.get(cell.path("v1/chat/completions")), 405, 7001)
    check_openai(cell.get("/v1/chat/completions"), 405, "method_not_allowed")
    check_openai(cell.post("/v1/models", {}), 405, "method_not_allowed")


def test_error_8001_missing_capability(cell: Cell) -> None:
    body = _with_image(_IMAGE.format(data="aGk="))
    message = check_envelope(cell.run_model(PLAIN, body), 400, 8001)
    assert "`vision`" in message
    check_openai(cell.chat({"model": PLAIN, **body}), 400, "missing_capability")


@pytest.mark.parametrize(
    "body",
    [
        b"[1]",
        b"{",
        b"null",
        b'{"prompt": 1}',
        b'{"prompt": ""}',
        b'{"messages": []}',
        b'{"messages": {}}',
        b'{"messages": [1]}',
        b'{"prompt": "x", "messages": [{"role": "user", "content": "y"}]}',
        b'{"prompt": "x", "stream": 1}',
        b'{"prompt": "x", "stream": "true"}',
        b'{"prompt": "x", "n": 0}',
        b'{"prompt": "x", "n": "2"}',
        b'{"prompt": "x", "max_tokens": -1}',
        b'{"prompt": "x", "stream_options": {"include_usage": true}}',
        b'{"prompt": "x", "stream": true, "stream_options": {"include_usage": "yes"}}',
        b'{"prompt": "x", "temperature": NaN}',
        b'{"prompt": "x", "options": {"rejectIfBusy": "yes"}}',
        b'{"prompt": "x", "response_format": "json"}',
        b'{"prompt": "x", "response_format": {"type": "json_schema"}}',
        b'{"prompt": "x", "image": [1, 2]}',
        b'{"prompt": "x", "raw": true}',
        b'{"requests": [{"text": "x"}]}',
        b"\xef\xbb\xbf{}",
        b'{"prompt": "\xff"}',
        b'{"prompt": "x", "tools": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"prompt": "x", "extra": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    ],
)
def test_error_5006_bad_input(cell: Cell, engine: ScriptedEngine, body: bytes) -> None:
    before = engine.state().requests
    check_envelope(cell.run_model(CHAT, body), 400, 5006)
    assert engine.state().requests == before


def test_error_5006_says_what_is_required_as_workers_ai_does(cell: Cell) -> None:
    message = check_envelope(cell.run_model(CHAT, {}), 400, 5006)
    assert "required properties at '/' are 'messages'" in message
    check_openai(cell.chat({"model": CHAT}), 400, "invalid_request")
    check_openai(cell.chat({"messages": prompt()}), 400, "invalid_request")


def test_error_5006_content_encoding_is_refused(cell: Cell) -> None:
    answer = cell.post(
        cell.path(f"run/{CHAT}"), {"prompt": "x"}, headers={"content-encoding": "gzip"}
    )
    assert "gzip" in check_envelope(answer, 400, 5006)


def test_error_5006_what_the_engine_refuses_is_the_callers_fault(cell: Cell) -> None:
    script = {"status": 400, "message": "the context is too long"}
    for stream in (False, True):
        answer = cell.run_model(CHAT, {"messages": prompt(script), "stream": stream})
        assert check_envelope(answer, 400, 5006) == "the context is too long"
    message = check_openai(cell.chat(chat_body(script=script)), 400, "invalid_request")
    assert message == "the context is too long"


@pytest.mark.parametrize("stream", [False, True])
def test_error_5001_the_engine_fails(cell: Cell, stream: bool) -> None:
    body = {"messages": prompt({"status": 500}), "stream": stream}
    check_envelope(cell.run_model(CHAT, body), 500, 5001)
    check_openai(cell.chat({"model": CHAT, **body}), 502, "engine_failed")


def test_error_3040_is_503_without_a_replica(cell: Cell) -> None:
    answer = cell.run_model(ABSENT, {"prompt": "x"})
    check_envelope(answer, 503, 3040, retry=True, retry_after=True)
    check_openai(cell.chat(chat_body(ABSENT)), 503, "no_replica", retry=True, retry_after=True)


def test_error_answers_carry_a_request_id_of_their_own_each(cell: Cell) -> None:
    ids = {check_request_id(cell.chat(chat_body("nobody")).headers) for _ in range(5)}
    assert len(ids) == 5


def test_errors_3039_5016_5019_5035_are_never_sent() -> None:
    sent = {number for _, number in error_response.WORKERS_AI.values()}
    assert sent.isdisjoint({3039, 5016, 5019, 5035})


@pytest.mark.parametrize(
    ("error", "status", "number", "retry"),
    [
        (errors.RateLimited(retry_after_seconds=7), 429, 3021, b"true"),
        (errors.QuotaSpent(retry_after_seconds=7), 429, 3036, b"true"),
        (errors.QuotaSpent(retry_after_seconds=7200), 429, 3036, b"false"),
        (errors.BudgetSpent(retry_after_seconds=7200), 429, 9036, b"false"),
    ],
)
def test_limits_are_rendered_and_say_whether_waiting_helps(
    error: Error, status: int, number: int, retry: bytes
) -> None:
    for is_workers_ai in (True, False):
        found = error_response.status_and_number(error, is_workers_ai=is_workers_ai)
        assert found == (status, number)
    headers = dict(error_response.headers(error))
    after = str(error.retry_after_seconds).encode()
    assert (headers[b"x-should-retry"], headers[b"retry-after"]) == (retry, after)
    body = httpx.Response(200, content=error_response.body(error, "an-id", is_workers_ai=True))
    assert body.json()["errors"][0]["code"] == number
    assert body.json()["error"]["type"] == "rate_limit_error"


def test_every_error_class_has_a_row_or_an_ancestor_with_one() -> None:
    kinds = [Error]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    assert len(kinds) > 30
    for kind in kinds:
        status, _ = error_response.status_and_number(kind(), is_workers_ai=True)
        assert 400 <= status < 600
        expected = b"true" if kind.retryable else b"false"
        assert dict(error_response.headers(kind()))[b"x-should-retry"] == expected
