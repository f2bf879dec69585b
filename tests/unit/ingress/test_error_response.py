"""Errors as HTTP: each class has status and number on both surfaces, and says when to retry."""

import inspect
import json

import pytest

from penstock import errors
from penstock.errors import Error
from penstock.ingress.error_response import (
    WORKERS_AI,
    body,
    event,
    headers,
    response_error,
    status_and_number,
)

EVERY = sorted(
    (kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Error)),
    key=lambda kind: kind.__name__,
)


def number(error: Error, *, on_workers: bool) -> tuple[int, int]:
    return status_and_number(error, is_workers_ai=on_workers)


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_has_a_status_a_number_and_a_message_on_both_surfaces(
    kind: type[Error],
) -> None:
    error = kind()
    for on_workers in (True, False):
        status, code = number(error, on_workers=on_workers)
        assert 400 <= status < 600
        assert 1000 <= code <= 10000
        answer = json.loads(body(error, "req-1", is_workers_ai=on_workers))
        assert answer["error"]["message"] == error.message
        assert answer["error"]["code"] == kind.code
        assert answer["error"]["type"]
        assert len(error.message) > 5
    assert number(error, on_workers=False)[0] == kind.status


def test_codes_are_unique_and_in_the_drawn_tree() -> None:
    codes = [kind.code for kind in EVERY]
    assert len(codes) == len(set(codes))
    tree = errors.__doc__ or ""
    for kind in EVERY:
        line = next(line for line in tree.splitlines() if kind.__name__ in line.split())
        drawn = [word for word in line.split() if word.isdigit() and len(word) == 3]
        assert drawn in ([], [str(kind.status)]), kind


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.UnknownModel(), 400, 5007),
        (errors.BadBase64(), 400, 5004),
        (errors.MissingBody(), 400, 3003),
        (errors.ModelNotAllowed(), 403, 5018),
        (errors.AccountBlocked(), 403, 3023),
        (errors.LoraUnsupported(), 405, 5005),
        (errors.MalformedModel(), 404, 3042),
        (errors.BodyTooLarge(), 413, 3006),
        (errors.DeadlinePassed(), 408, 3007),
        (errors.Aborted(), 408, 3008),
        (errors.QuotaSpent(), 429, 3036),
        (errors.QueueFull(), 429, 3036),
        (errors.OutOfCapacity(), 429, 3040),
        (errors.RateLimited(), 429, 3021),
        (errors.InvalidRequest(), 400, 5006),
        (errors.EngineFailed(), 500, 5001),
        (errors.NoReplica(), 503, 3040),
        (errors.Unauthenticated(), 401, 10000),
    ],
)
def test_workers_ais_table(error: Error, status: int, code: int) -> None:
    assert number(error, on_workers=True) == (status, code)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.DeadlinePassed(), 504),
        (errors.UnknownModel(), 404),
        (errors.NoReplica(), 503),
        (errors.OutOfCapacity(), 429),
        (errors.EngineLost(), 502),
        (errors.StoreUnavailable(), 503),
        (errors.InternalError(), 500),
        (errors.HeadersTooLarge(), 431),
        (errors.BodyTooSlow(), 408),
    ],
)
def test_openais_statuses(error: Error, status: int) -> None:
    assert number(error, on_workers=False)[0] == status


def test_unknown_model_has_openais_own_code() -> None:
    assert json.loads(body(errors.UnknownModel(), "r", is_workers_ai=False))["error"]["code"] == (
        "model_not_found"
    )


def test_error_that_is_not_listed_has_its_nearest_ancestors_row() -> None:
    class NewKind(errors.OutOfCapacity):
        """A kind of a later day."""

        code = "new_kind"
        status = 418

    assert number(NewKind(), on_workers=True) == WORKERS_AI[errors.OutOfCapacity]
    assert number(NewKind(), on_workers=False) == (418, 3040)
    assert number(errors.NoReplica(), on_workers=True) == WORKERS_AI[errors.Unavailable]


def test_envelope_serves_both_kinds_of_client() -> None:
    error = errors.InvalidRequest("`n` is wrong", param="n")
    answer = json.loads(body(error, "req-1", is_workers_ai=True))
    assert answer["success"] is False
    assert answer["result"] == {}
    assert answer["messages"] == []
    assert answer["errors"] == [{"message": "AiError: `n` is wrong (req-1)", "code": 5006}]
    assert answer["error"] == {
        "message": "`n` is wrong",
        "type": "invalid_request_error",
        "code": "invalid_request",
        "param": "n",
    }


def test_openais_body_is_the_error_alone() -> None:
    answer = json.loads(body(errors.Unauthenticated(), "req-1", is_workers_ai=False))
    assert set(answer) == {"error"}
    assert answer["error"]["type"] == "authentication_error"
    assert answer["error"]["param"] is None


@pytest.mark.parametrize("kind", EVERY)
def test_every_answer_says_whether_to_come_again(kind: type[Error]) -> None:
    told = dict(headers(kind()))[b"x-should-retry"]
    assert told == (b"true" if kind.retryable else b"false")
    if issubclass(kind, errors.Interrupted):
        assert told == b"false", "work that began is not to be run and billed again"
    if issubclass(kind, errors.Unavailable):
        assert told == b"true"
        assert int(dict(headers(kind()))[b"retry-after"]) >= 1


def test_retry_after_is_told_where_it_is_known() -> None:
    assert dict(headers(errors.OutOfCapacity(retry_after_seconds=7)))[b"retry-after"] == b"7"
    assert b"retry-after" not in dict(headers(errors.InvalidRequest()))


def test_refused_key_is_told_how_to_authenticate() -> None:
    assert dict(headers(errors.Unauthenticated()))[b"www-authenticate"] == b"Bearer"
    assert b"www-authenticate" not in dict(headers(errors.Forbidden()))


@pytest.mark.parametrize("kind", EVERY)
def test_error_in_a_stream_is_one_event(kind: type[Error]) -> None:
    error = kind('a "quoted"\n\ndata: [DONE]\n\nmessage é')
    lines = event(error, "req-1").split(b"\n\n")
    assert lines[1:] == [b""]
    told = json.loads(lines[0].removeprefix(b"data: "))["error"]
    assert told["message"] == error.message
    assert told["code"] == kind.code
    assert told["request_id"] == "req-1"


def test_agents_know_a_withheld_response_as_final() -> None:
    for withheld in (errors.ToolCallForbidden("No."), errors.ToolCallUnreadable("No.")):
        told = {"code": "invalid_prompt", "message": "No.", "reason": withheld.code}
        assert response_error(withheld) == told
    assert response_error(errors.EngineLost("It went.")) == {
        "code": "engine_lost",
        "message": "It went.",
    }
