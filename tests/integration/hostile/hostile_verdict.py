"""Whether an answer is one that a gateway may give to a hostile request.

Never a 500 of our own, always our request id, and an error in the shape of its surface.
"""

import json
import re
from typing import Any

from tests.integration.hostile.hostile_shot import Answer, Malformed, Shot

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_ERROR_KEYS = {"message", "type", "code", "param"}
_ENVELOPE_KEYS = {"errors", "error", "success", "result", "messages"}
# What is said when an engine fails; nothing else makes a 500.
_ENGINE_CODES = frozenset({"engine_failed", "engine_lost"})
_SLOW = "deadline_passed"
_BUSY_CODES = frozenset(
    {"out_of_capacity", "no_replica", "replica_unreachable", "overloaded", "store_unavailable"}
)
_DONE = b"data: [DONE]\n\n"
_ERROR = b'data: {"error":'
_PAGE_STATUSES = frozenset({200, 204, 304, 307})


def judge(shot: Shot, answer: Answer) -> str:
    """Raise Malformed, or say in a word how it was answered: for the tally."""
    request_id = answer.headers.get("x-request-id", "")
    if _UUID7.fullmatch(request_id) is None:
        raise Malformed(f"{answer.status} without one of our request ids: {answer.headers}")
    if shot.is_head or answer.status in _PAGE_STATUSES - {200}:
        return str(answer.status)
    if answer.media_type == "text/event-stream":
        return _judge_stream(shot, answer)
    if answer.media_type == "text/plain" and answer.status == 200:
        return "preflight"
    if answer.media_type != "application/json":
        raise Malformed(f"{answer.status} is {answer.media_type!r}: {answer.body[:300]!r}")
    if answer.status == 200 and shot.is_engine_faulty:
        # Not ours: what an engine says goes through as it is.
        return "200 of a faulty engine"
    value = _parsed(answer.body)
    if answer.status == 200:
        return "200"
    if answer.status < 400:
        raise Malformed(f"an unexpected status: {answer.status}")
    return _judge_error(shot, answer, value)


def _judge_error(shot: Shot, answer: Answer, value: Any) -> str:
    if answer.status == 503 and value.keys() == {"status", "checks"}:
        return "503 not ready"
    code = _check_shape(answer, value)
    _check_code(shot, code)
    if answer.headers.get("x-should-retry") not in ("true", "false"):
        raise Malformed(f"{answer.status} does not say whether to retry")
    if answer.status >= 500 and code not in _ENGINE_CODES | _BUSY_CODES | {_SLOW}:
        raise Malformed(f"{answer.status} {code}: {answer.body[:500]!r}")
    if code in _ENGINE_CODES and not shot.is_engine_faulty:
        # The scripted engine answers 500 to what it cannot digest, and says so in its log.
        return f"{answer.status} {code} (the engine stumbled)"
    return f"{answer.status} {code}"


def _check_code(shot: Shot, code: str) -> None:
    if code == "internal_error":
        raise Malformed("an error of our own")
    if code == _SLOW and not shot.is_engine_slow:
        # Whatever waits for an engine that has answered, or was never asked, is lost.
        raise Malformed("a timeout where nothing was slow")


def _check_shape(answer: Answer, value: Any) -> str:
    is_envelope = "cf-ai-req-id" in answer.headers
    if value.keys() != (_ENVELOPE_KEYS if is_envelope else {"error"}):
        raise Malformed(f"{answer.status} in the wrong shape: {value}")
    error = value["error"]
    # Where engines are busy, the asynchronous API is offered beside the error.
    parts = error.keys() - {"async"} if error.get("code") == "out_of_capacity" else error.keys()
    if parts != _ERROR_KEYS or not error["message"] or not error["code"]:
        raise Malformed(f"an error without its parts: {error}")
    if is_envelope:
        (first,) = value["errors"]
        ends = first["message"].endswith(f"({answer.headers['x-request-id']})")
        if not ends or not isinstance(first["code"], int) or value["success"] is not False:
            raise Malformed(f"an envelope without its parts: {value}")
    return str(error["code"])


def _judge_stream(shot: Shot, answer: Answer) -> str:
    if answer.status != 200:
        raise Malformed(f"a stream with status {answer.status}")
    text = answer.body
    events = text.split(b"\n\n")[:-1]
    # `/ai/run` ends with the error itself: its clients take the mark for a good end.
    is_broken = "cf-ai-req-id" in answer.headers and events[-1].startswith(_ERROR)
    # An engine that was told to may say more after its end.
    is_ended = text.endswith(_DONE) or (shot.is_engine_faulty and _DONE in text)
    if not is_ended and not is_broken:
        raise Malformed(f"a stream that does not end in [DONE]: {text[-300:]!r}")
    code = ""
    for event in events if is_broken else events[:-1]:
        if event.startswith(b":"):
            continue
        if not event.startswith(b"data: "):
            # Only an engine that was told to send nonsense may be behind this.
            if not shot.is_engine_faulty:
                raise Malformed(f"not an event: {event[:300]!r}")
            continue
        code = _judge_event(shot, event[len(b"data: ") :]) or code
    return f"stream {code}".strip()


def _judge_event(shot: Shot, data: bytes) -> str:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        if not shot.is_engine_faulty:
            raise Malformed(f"an event that is not JSON: {data[:300]!r}") from None
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return ""
    code = str(error.get("code"))
    _check_code(shot, code)
    return code


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise Malformed(f"not JSON: {body[:300]!r}") from None
