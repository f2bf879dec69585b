"""A request to the scripted engine in the form shared by all APIs, and refusals of requests."""

import re
from typing import Any, TypeVar

import msgspec

from penstock.testing.scripted_engine.prefix_blocks import count_tokens

_Body = TypeVar("_Body")
_SALT_CHARACTERS_MAX = 128
_MISSING = re.compile(r"Object missing required field `([^`]+)`$")
_WHERE = re.compile(r"at `\$([^`]*)`$")
_NOT_IN_SALTS = re.compile(r"[@/\\\0]")


class RequestRefusedError(Exception):
    """The engine answers with an error of this status instead of running anything."""

    def __init__(
        self,
        status: int,
        message: str | None = None,
        param: str | None = None,
        *,
        kind: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind
        self.headers = headers or {}


class MalformedRequestError(RequestRefusedError):
    """The body could not be read; every API reports this error in OpenAI's shape."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(400, message, param, kind="Bad Request")


class Served(msgspec.Struct, frozen=True):
    """The engine's model and limits that requests are checked against."""

    model: str
    max_model_len: int


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may run. `tools` and `tool_choice` are in chat's shape."""

    # A chat has one prompt; completions and embeddings have one for each text.
    prompts: list[bytes]
    last_user_text: str = ""
    # How many rounds of tool results follow the last user message.
    rounds: int = 0
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    # The number of answers for each prompt.
    n: int = 1
    token_limit: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: list[str] = []
    tools: list[dict[str, Any]] = []
    # The tools were given in the older form, as `functions`; vLLM itself does not take it.
    has_functions: bool = False
    tool_choice: str | dict[str, Any] | None = None
    json_schema: dict[str, Any] | None = None
    wants_json: bool = False
    priority: int = 0
    cache_salt: str = ""
    # The answer's id, in APIs whose body may set it.
    id: str = ""
    # Fields of the body that the answer repeats.
    echo: dict[str, Any] = {}

    @property
    def prompt_tokens(self) -> int:
        return sum(map(count_tokens, self.prompts))


def decode(decoder: msgspec.json.Decoder[_Body], payload: bytes) -> _Body:
    """Decode a body; raises vLLM's refusal for a wrong one."""
    try:
        return decoder.decode(payload)
    except msgspec.ValidationError as error:
        if found := _MISSING.match(str(error)):
            raise missing(found[1]) from error
        where = _WHERE.search(str(error))
        param = "body" + (where[1].replace("[", ".").replace("]", "") if where else "")
        message = f"1 validation error:\n  {{'type': 'invalid', 'msg': '{error}'}}"
        raise MalformedRequestError(message, param) from error
    except msgspec.DecodeError as error:
        message = (
            "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.0', "
            f"'msg': 'JSON decode error', 'ctx': {{'error': '{error}'}}}}"
        )
        raise MalformedRequestError(message, "body.0") from error


def missing(name: str) -> MalformedRequestError:
    """Return the error for a body that lacks a required field."""
    where = f"body.{name}"
    message = (
        f"1 validation error:\n  {{'type': 'missing', 'loc': '{where}', "
        "'msg': 'Field required', 'input': '<dict>'}"
    )
    return MalformedRequestError(message, where)


def check_model(asked: str | None, served: Served) -> None:
    if asked is not None and asked != served.model:
        message = f"The model `{asked}` does not exist. Valid aliases: {served.model}."
        raise RequestRefusedError(404, message, "model")


def check_salt(salt: str | None) -> None:
    if salt is None:
        return
    if not salt:
        message = "Parameter 'cache_salt' must be a non-empty string if provided."
    elif len(salt) > _SALT_CHARACTERS_MAX or _NOT_IN_SALTS.search(salt):
        message = (
            "Parameter 'cache_salt' must be at most 128 characters and must "
            "not contain '@', '/', '\\\\', or NUL."
        )
    else:
        return
    raise RequestRefusedError(400, f"{message} (parameter=cache_salt)", "cache_salt")


def check_prompt(prompt: bytes, served: Served) -> None:
    if count_tokens(prompt) <= served.max_model_len:
        return
    least = served.max_model_len + 1
    raise RequestRefusedError(
        400,
        f"This model's maximum context length is {served.max_model_len} tokens. However, your "
        f"prompt contains at least {least} input tokens, which exceeds this limit even without "
        "any output tokens. Please reduce the length of the input prompt. "
        f"(parameter=input_tokens, value={least})",
        "input_tokens",
    )


def check_least(min_tokens: int, limit: int) -> None:
    """Check `min_tokens`; `limit` is `max_tokens`, or what the prompt leaves of the context."""
    if min_tokens < 0:
        message = f"min_tokens must be greater than or equal to 0, got {min_tokens}."
    elif min_tokens > limit:
        message = f"min_tokens must be less than or equal to max_tokens={limit}, got {min_tokens}."
    else:
        return
    raise RequestRefusedError(400, message)


def check_limit(name: str, limit: int | None, served: Served) -> None:
    """Check the output token limit; `name` is its name in the API."""
    if limit is None:
        return
    if limit < 1:
        message = f"max_tokens must be at least 1, got {limit}. "
        message += f"(parameter=max_tokens, value={limit})"
        raise RequestRefusedError(400, message, "max_tokens")
    if limit > served.max_model_len:
        message = (
            f"{name}={limit} cannot be greater than max_model_len={served.max_model_len}. Please "
            f"request fewer output tokens. (parameter={name}, value={limit})"
        )
        raise RequestRefusedError(400, message, name)
