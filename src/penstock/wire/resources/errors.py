"""Error answers in both shapes: OpenAI's `error{}`, and the envelope's `errors[]` beside it."""

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType


class AsyncOffer(msgspec.Struct):
    """How the same request is queued instead: send its body to `href` with these headers too."""

    href: str
    headers: dict[str, str] = {}


class OpenAIError(msgspec.Struct):
    """What openai's SDKs read. `async` is there where waiting in line would help."""

    message: str
    type: str
    code: str
    param: str | None = None
    async_offer: AsyncOffer | UnsetType = msgspec.field(default=UNSET, name="async")


class OpenAIErrorAnswer(msgspec.Struct):
    """The body of an error on /v1."""

    error: OpenAIError


class EnvelopeError(msgspec.Struct):
    """What cloudflare's SDKs read: a number that says which row of the error table it is."""

    message: str
    code: int
    async_offer: AsyncOffer | UnsetType = msgspec.field(default=UNSET, name="async")


class EnvelopeErrorAnswer(msgspec.Struct):
    """The body of an error under /client/v4: both kinds of client find what they look for."""

    errors: list[EnvelopeError]
    error: OpenAIError
    success: bool = False
    result: dict[str, Any] = {}
    messages: list[Any] = []


class AnthropicError(msgspec.Struct):
    """What Anthropic's SDKs read. `code` is ours: their types are few."""

    type: str
    message: str
    code: str


class AnthropicErrorAnswer(msgspec.Struct):
    """The body of an error on `/v1/messages`, and the data of a stream's `error` event."""

    error: AnthropicError
    request_id: str
    type: str = "error"


ANTHROPIC_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def anthropic_type(status: int) -> str:
    """Return Anthropic's `type` for a status; a status not listed has one of two."""
    other = "invalid_request_error" if status < 500 else "api_error"
    return ANTHROPIC_TYPES.get(status, other)


OPENAI_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
}


def openai_type(status: int) -> str:
    """Return OpenAI's `type` for a status."""
    return OPENAI_TYPES.get(status, "server_error")
