"""What the scripted engine reads of a request's body, and the errors vLLM gives for a wrong one."""

from typing import Any

import msgspec

from penstock.testing.prefix_blocks import count_tokens

_CHOICES_MAX = 128


class RequestRefusedError(Exception):
    """The engine answers with an error of this status instead of running anything."""

    def __init__(
        self,
        status: int,
        message: str | None = None,
        param: str | None = None,
        *,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.headers = headers or {}


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Body(msgspec.Struct, frozen=True):
    model: str | None = None
    messages: list[dict[str, Any]] | None = None
    prompt: str | list[Any] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: str | list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    priority: int = 0
    cache_salt: str | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    """A request that may run."""

    is_chat: bool
    rendered: bytes
    prompt_tokens: int
    last_user_text: str
    stream: bool
    include_usage: bool
    continuous_usage: bool
    n: int
    token_limit: int | None
    min_tokens: int
    ignore_eos: bool
    stop: list[str]
    tools: list[dict[str, Any]]
    tool_choice: str | dict[str, Any] | None
    json_schema: dict[str, Any] | None
    wants_json: bool
    priority: int
    cache_salt: str


_decode = msgspec.json.Decoder(_Body).decode


def read_request(payload: bytes, *, is_chat: bool, model: str, max_model_len: int) -> ChatRequest:
    """Decode and check as vLLM does; raises RequestRefusedError."""
    body = _decoded(payload)
    if body.model is not None and body.model != model:
        message = f"The model `{body.model}` does not exist. Valid aliases: {model}."
        raise RequestRefusedError(404, message, "model")
    rendered, last_user_text = _render(body, is_chat=is_chat)
    prompt_tokens = count_tokens(rendered)
    limit = body.max_completion_tokens or body.max_tokens
    _check_lengths(body, limit, prompt_tokens, max_model_len)
    if body.n is not None and not 1 <= body.n <= _CHOICES_MAX:
        raise RequestRefusedError(400, f"n must be between 1 and {_CHOICES_MAX}.", "n")
    options = body.stream_options or StreamOptions()
    if body.stream_options is not None and not body.stream:
        raise RequestRefusedError(
            400,
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            "stream_options",
        )
    response_format = body.response_format or {}
    return ChatRequest(
        is_chat=is_chat,
        rendered=rendered,
        prompt_tokens=prompt_tokens,
        last_user_text=last_user_text,
        stream=bool(body.stream),
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.include_usage and options.continuous_usage_stats),
        n=body.n or 1,
        token_limit=limit if limit is not None else max_model_len - prompt_tokens,
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        stop=[body.stop] if isinstance(body.stop, str) else body.stop or [],
        tools=body.tools or [],
        tool_choice=body.tool_choice,
        json_schema=(response_format.get("json_schema") or {}).get("schema"),
        wants_json=response_format.get("type") in {"json_object", "json_schema"},
        priority=body.priority,
        cache_salt=body.cache_salt or "",
    )


def _decoded(payload: bytes) -> _Body:
    try:
        return _decode(payload)
    except msgspec.ValidationError as error:
        message = f"1 validation error:\n  {{'type': 'invalid', 'msg': '{error}'}}"
        raise RequestRefusedError(400, message, "body") from error
    except msgspec.DecodeError as error:
        message = (
            "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.0', "
            f"'msg': 'JSON decode error', 'ctx': {{'error': '{error}'}}}}"
        )
        raise RequestRefusedError(400, message, "body.0") from error


def _check_lengths(body: _Body, limit: int | None, prompt_tokens: int, max_model_len: int) -> None:
    if prompt_tokens > max_model_len:
        least = max_model_len + 1
        raise RequestRefusedError(
            400,
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
            f"contains at least {least} input tokens, which exceeds this limit even without any "
            "output tokens. Please reduce the length of the input prompt. "
            f"(parameter=input_tokens, value={least})",
            "input_tokens",
        )
    for value in (body.max_tokens, body.max_completion_tokens):
        if value is not None and value < 1:
            message = f"max_tokens must be at least 1, got {value}. "
            message += f"(parameter=max_tokens, value={value})"
            raise RequestRefusedError(400, message, "max_tokens")
    if limit is not None and limit > max_model_len:
        message = (
            f"max_tokens={limit} cannot be greater than max_model_len={max_model_len}. Please "
            f"request fewer output tokens. (parameter=max_tokens, value={limit})"
        )
        raise RequestRefusedError(400, message, "max_tokens")


def _render(body: _Body, *, is_chat: bool) -> tuple[bytes, str]:
    """The prompt as one text, and the last user message's words."""
    if not is_chat:
        prompt = body.prompt if isinstance(body.prompt, str) else str(body.prompt or "")
        return prompt.encode(), prompt
    if body.messages is None:
        message = (
            "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', "
            "'msg': 'Field required', 'input': '<dict>'}"
        )
        raise RequestRefusedError(400, message, "body.messages")
    if not body.messages:
        message = (
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
        raise RequestRefusedError(400, message)
    parts, last_user_text = [], ""
    if body.tools:
        parts.append(msgspec.json.encode(body.tools).decode())
    for message_fields in body.messages:
        role, text = message_fields.get("role"), _text_of(message_fields)
        if role == "user":
            last_user_text = text
        parts.append(f"<|im_start|>{role}\n{text}<|im_end|>\n")
    parts.append("<|im_start|>assistant\n")
    return "".join(parts).encode(), last_user_text


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        text = content
    else:
        parts = content if isinstance(content, list) else []
        text = "".join(
            part.get("text") or str(part.get("type")) for part in parts if isinstance(part, dict)
        )
    calls = message.get("tool_calls")
    return text + msgspec.json.encode(calls).decode() if calls else text
