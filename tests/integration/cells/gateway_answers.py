"""What every error answer of a gateway must look like, on each surface."""

import re
from typing import Any, Protocol

from penstock.clock import timestamp_of

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Headers(Protocol):
    """httpx's headers, or a plain dict with lower-case names."""

    def get(self, key: str, /) -> str | None: ...


def check_request_id(headers: Headers) -> str:
    """Every answer carries our request id, a UUIDv7."""
    request_id = headers.get("x-request-id") or ""
    assert _UUID7.fullmatch(request_id), f"not one of our request ids: {request_id!r}"
    assert timestamp_of(request_id) > 1_700_000_000
    return request_id


def check_envelope(
    answer: Any, status: int, number: int, *, retry: bool = False, retry_after: bool = False
) -> str:
    """An error on the Workers AI surface; its message."""
    body = answer.json()
    _check_head(answer, status, retry=retry, retry_after=retry_after)
    assert body.keys() == {"errors", "error", "success", "result", "messages"}
    assert (body["success"], body["result"], body["messages"]) == (False, {}, [])
    (error,) = body["errors"]
    assert error["code"] == number, body
    request_id = check_request_id(answer.headers)
    assert answer.headers["cf-ai-req-id"] == request_id
    assert error["message"].startswith("AiError: ")
    assert error["message"].endswith(f" ({request_id})")
    beside = body["error"]
    offer = {"async"} if number == 3040 and "async" in error else set()
    assert error.keys() == {"message", "code"} | offer
    assert beside.keys() == {"message", "type", "code", "param"} | offer
    assert beside["message"] in error["message"]
    return str(beside["message"])


def check_openai(
    answer: Any, status: int, code: str, *, retry: bool = False, retry_after: bool = False
) -> str:
    """An error on /v1; its message."""
    body = answer.json()
    _check_head(answer, status, retry=retry, retry_after=retry_after)
    assert body.keys() == {"error"}
    assert body["error"]["code"] == code, body
    offer = {"async"} if code == "out_of_capacity" else set()
    assert body["error"].keys() - offer == {"message", "type", "code", "param"}
    return str(body["error"]["message"])


def _check_head(answer: Any, status: int, *, retry: bool, retry_after: bool) -> None:
    found = answer.status_code if hasattr(answer, "status_code") else answer.status
    assert found == status, (found, answer.json())
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-should-retry"] == ("true" if retry else "false")
    assert ("retry-after" in answer.headers) == retry_after
    if retry_after:
        assert int(answer.headers["retry-after"]) >= 1
    check_request_id(answer.headers)
