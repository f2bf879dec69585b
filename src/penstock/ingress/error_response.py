"""Renders errors as HTTP, which no other file does: status and number, headers, body, event."""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from penstock import errors
from penstock.errors import Error
from penstock.wire.apis.failed_response import failed_response
from penstock.wire.resources.errors import (
    AnthropicError,
    AnthropicErrorAnswer,
    AsyncOffer,
    EnvelopeError,
    EnvelopeErrorAnswer,
    OpenAIError,
    OpenAIErrorAnswer,
    anthropic_type,
    openai_type,
)

# Workers AI's status and internal code. An unlisted class uses its nearest ancestor's.
WORKERS_AI: Final[dict[type[Error], tuple[int, int]]] = {
    Error: (500, 8005),
    errors.Refused: (400, 5006),
    errors.InvalidRequest: (400, 5006),
    errors.MissingBody: (400, 3003),
    errors.BadBase64: (400, 5004),
    errors.MissingCapability: (400, 8001),
    errors.StateUnavailable: (400, 8001),
    errors.PromptOverContract: (400, 9042),
    errors.Unauthenticated: (401, 10000),
    errors.Forbidden: (403, 10000),
    errors.AccountBlocked: (403, 3023),
    errors.ModelNotAllowed: (403, 5018),
    errors.WorkflowNotAllowed: (403, 9040),
    errors.ToolForbidden: (403, 9041),
    errors.NotFound: (404, 7000),
    errors.UnknownModel: (400, 5007),
    errors.MalformedModel: (404, 3042),
    errors.LoraUnsupported: (405, 5005),
    errors.MethodNotAllowed: (405, 7001),
    errors.BodyTooSlow: (408, 3007),
    errors.BodyTooLarge: (413, 3006),
    errors.HeadersTooLarge: (431, 3006),
    errors.CostCapped: (400, 9037),
    errors.JobCancelled: (408, 3008),
    errors.Conflict: (409, 5006),
    errors.QueueFull: (429, 3036),
    errors.OverLimit: (429, 9036),
    errors.RateLimited: (429, 3021),
    errors.QuotaSpent: (429, 3036),
    errors.Unavailable: (503, 3040),
    errors.OutOfCapacity: (429, 3040),
    errors.JobExpired: (408, 3007),
    errors.JournalFull: (503, 8005),
    errors.StoreUnavailable: (503, 8005),
    errors.Interrupted: (502, 5001),
    errors.EngineFailed: (500, 5001),
    errors.Aborted: (408, 3008),
    errors.DeadlinePassed: (408, 3007),
    errors.InternalError: (500, 8005),
    errors.Withheld: (403, 9043),
    errors.ToolCallUnreadable: (403, 9046),
}

_RETRY_AFTER_SECONDS: Final = 1
_FINAL_CODE: Final = "invalid_prompt"

_encoder = msgspec.json.Encoder()
Headers = list[tuple[bytes, bytes]]


def status_and_number(error: Error, *, is_workers_ai: bool) -> tuple[int, int]:
    """Return the HTTP status on this surface, and the code that Workers AI's clients read."""
    for kind in type(error).__mro__:
        row = WORKERS_AI.get(kind)
        if row is not None:
            return row if is_workers_ai else (error.status, row[1])
    raise AssertionError(type(error))


def body(
    error: Error,
    request_id: str,
    *,
    is_workers_ai: bool,
    offer: AsyncOffer | UnsetType = UNSET,
) -> bytes:
    """Return the error as JSON in the surface's shape, with `offer`: how to queue the request."""
    status, number = status_and_number(error, is_workers_ai=is_workers_ai)
    openai = OpenAIError(error.message, openai_type(status), error.code, error.param, offer)
    if not is_workers_ai:
        return _encoder.encode(OpenAIErrorAnswer(openai))
    message = f"AiError: {error.message} ({request_id})"
    return _encoder.encode(EnvelopeErrorAnswer([EnvelopeError(message, number, offer)], openai))


def messages_body(error: Error, request_id: str) -> bytes:
    """Return the error as JSON, in the shape of Anthropic's Messages."""
    told = AnthropicError(anthropic_type(error.status), error.message, error.code)
    return _encoder.encode(AnthropicErrorAnswer(told, request_id))


def headers(error: Error) -> Headers:
    """Return the headers that state whether the client may retry; not once work has begun."""
    retry = b"true" if error.is_retryable else b"false"
    answer: Headers = [(b"x-should-retry", retry)]
    seconds = error.retry_after_seconds
    if seconds is None and isinstance(error, errors.Unavailable):
        # Without a delay, clients retry at once, all together.
        seconds = _RETRY_AFTER_SECONDS
    if seconds is not None:
        answer.append((b"retry-after", str(seconds).encode()))
    if isinstance(error, errors.Unauthenticated):
        answer.append((b"www-authenticate", b"Bearer"))
    return answer


def event(error: Error, request_id: str) -> bytes:
    """Return the error as an event of a started stream; the caller adds the end mark."""
    kind = openai_type(error.status)
    fields = {
        "message": error.message,
        "type": kind,
        "code": error.code,
        "param": error.param,
        "request_id": request_id,
    }
    return b"data: %s\n\n" % _encoder.encode({"error": fields})


def messages_event(error: Error, request_id: str) -> bytes:
    """Return the error as the last event of a Messages stream."""
    return b"event: error\ndata: %s\n\n" % messages_body(error, request_id)


def responses_event(error: Error, request_id: str, first: bytes, last: bytes) -> bytes:
    """Return the last event of a failed Responses stream, given its first and latest events."""
    return failed_response(f"resp_{request_id}", response_error(error), first, last)


def response_error(error: Error) -> dict[str, str]:
    """Return `error` of a Responses stream that failed.

    Codex and the AI SDK retry after a code that they do not know, five times. Each answer would be
    charged, so a withheld one has the code of OpenAI's that they know as final.
    """
    if not isinstance(error, errors.Withheld):
        return {"code": error.code, "message": error.message}
    return {"code": _FINAL_CODE, "message": error.message, "reason": error.code}
