"""Reads bodies of chats and completions for the scripted engine, and checks them as vLLM does."""

from typing import Any, TypeAlias

import msgspec

from penstock.testing.scripted_engine.engine_request import (
    EngineRequest,
    RequestRefusedError,
    Served,
    check_least,
    check_limit,
    check_model,
    check_prompt,
    check_salt,
    decode,
    missing,
)
from penstock.testing.scripted_engine.prefix_blocks import count_tokens

Texts: TypeAlias = str | list[int | str | list[int]]
_CHOICES_MAX = 128
_TOKEN_IDS = 10_000


class ScriptedStreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class ChatBody(msgspec.Struct, frozen=True):
    """The fields that are read. Other APIs' readers convert to this shape, as vLLM does."""

    model: str | None = None
    messages: list[dict[str, Any]] | None = None
    prompt: Texts | None = None
    stream: bool | None = None
    stream_options: ScriptedStreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: str | list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    functions: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    priority: int = 0
    cache_salt: str | None = None


_decoder = msgspec.json.Decoder(ChatBody)


def read_chat(payload: bytes, served: Served) -> EngineRequest:
    """Read a chat's body; raises RequestRefusedError, as all readers do."""
    return read_chat_body(decode(_decoder, payload), served)


def read_completion(payload: bytes, served: Served) -> EngineRequest:
    body = decode(_decoder, payload)
    prompts = texts_of(body.prompt)
    if not prompts or not all(prompts):
        message = "Either prompt or prompt_embeds must be provided and non-empty."
        raise RequestRefusedError(400, f"{message} (parameter=prompt)", "prompt")
    return _checked(body, prompts, prompts[-1].decode(), served)


def read_chat_body(body: ChatBody, served: Served, limit_name: str = "max_tokens") -> EngineRequest:
    """Check a body; `limit_name` is the name of the output token limit in the caller's API."""
    if body.messages is None:
        raise missing("messages")
    if not body.messages:
        message = (
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
        raise RequestRefusedError(400, message)
    rendered, last_user_text, rounds = _render(body.messages, body.tools)
    request = _checked(body, [rendered], last_user_text, served, limit_name)
    return msgspec.structs.replace(request, rounds=rounds)


def texts_of(texts: Texts | None) -> list[bytes]:
    """Return one or several texts, each given as a string or as token ids."""
    if isinstance(texts, str):
        return [texts.encode()]
    if not texts:
        return []
    if isinstance(texts[0], int):
        return [_of_ids([token for token in texts if isinstance(token, int)])]
    return [
        text.encode()
        if isinstance(text, str)
        else _of_ids([text] if isinstance(text, int) else text)
        for text in texts
    ]


def _of_ids(ids: list[int]) -> bytes:
    """Return four bytes for each id, which the engine counts as one token."""
    return b"".join(b"%04d" % (token % _TOKEN_IDS) for token in ids)


def _checked(
    body: ChatBody,
    prompts: list[bytes],
    last_user_text: str,
    served: Served,
    limit_name: str = "max_tokens",
) -> EngineRequest:
    check_model(body.model, served)
    check_salt(body.cache_salt)
    for prompt in prompts:
        check_prompt(prompt, served)
    for value in (body.max_tokens, body.max_completion_tokens):
        check_limit(limit_name, value, served)
    if body.n is not None and not 1 <= body.n <= _CHOICES_MAX:
        raise RequestRefusedError(400, f"n must be between 1 and {_CHOICES_MAX}.", "n")
    options = body.stream_options or ScriptedStreamOptions()
    if body.stream_options is not None and not body.stream:
        raise RequestRefusedError(
            400,
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            "stream_options",
        )
    limit = body.max_completion_tokens or body.max_tokens
    if limit is None:
        limit = served.max_model_len - max(map(count_tokens, prompts))
    check_least(body.min_tokens, limit)
    response_format = body.response_format or {}
    return EngineRequest(
        prompts=prompts,
        last_user_text=last_user_text,
        stream=bool(body.stream),
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.include_usage and options.continuous_usage_stats),
        n=body.n or 1,
        token_limit=limit,
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        stop=[body.stop] if isinstance(body.stop, str) else body.stop or [],
        tools=body.tools or [{"function": each} for each in body.functions or []],
        has_functions=bool(body.functions),
        tool_choice=body.tool_choice,
        json_schema=(response_format.get("json_schema") or {}).get("schema"),
        wants_json=response_format.get("type") in {"json_object", "json_schema"},
        priority=body.priority,
        cache_salt=body.cache_salt or "",
    )


def _render(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> tuple[bytes, str, int]:
    """Return the prompt, the last user message's text, and the rounds of tool calls after it."""
    parts, last_user_text, rounds = [], "", 0
    before: str | None = None
    if tools:
        parts.append(msgspec.json.encode(tools).decode())
    for message_fields in messages:
        role, text = message_fields.get("role"), _text_of(message_fields)
        if role == "user":
            last_user_text, rounds = text, 0
        rounds += role == "tool" and before != "tool"
        before = role
        parts.append(f"<|im_start|>{role}\n{text}<|im_end|>\n")
    parts.append("<|im_start|>assistant\n")
    return "".join(parts).encode(), last_user_text, rounds


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
