"""Converts Workers AI's `/ai/run` input to a chat request, and answers to its two forms."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.errors import EngineFailed, InvalidRequest, LoraUnsupported
from penstock.records.model import Capability, Family, Model
from penstock.wire.json_body import Field, Fields, check_count, given, is_given

_NATIVE_OUTPUT_TOKENS: Final = Raw(b"256")

_PROMPT = Field("prompt", msgspec.json.Decoder(str | None), None)
_RAW = Field("raw", msgspec.json.Decoder(bool | None), None)
_TOOLS = Field("tools", msgspec.json.Decoder(list[Raw] | None), None)
_LORA = Field("lora", msgspec.json.Decoder(str | None), None)

_fields_decoder = msgspec.json.Decoder(Fields)


def chat_fields(fields: Fields, model: Model) -> Fields:
    """Return `/ai/run` input as the fields of a chat request. `fields` is changed."""
    if "requests" in fields or "request_id" in fields:
        raise InvalidRequest("Batches of requests are not available on this gateway.")
    _refuse_unknown_forms(fields, model)
    prompt = _PROMPT.read(fields)
    has_messages = is_given(fields, "messages")
    if prompt is None and not has_messages:
        raise InvalidRequest(
            "oneOf at '/' not met, 0 matches: required properties at '/' are 'prompt', "
            "required properties at '/' are 'messages'"
        )
    if prompt is not None and has_messages:
        raise InvalidRequest("Send `prompt` or `messages`, not both.", param="prompt")
    if prompt is not None:
        if not prompt:
            raise InvalidRequest("`prompt` is empty.", param="prompt")
        message = {"role": "user", "content": Raw(bytes(fields.pop("prompt")))}
        fields["messages"] = Raw(msgspec.json.encode([message]))
    if model.family is Family.NATIVE:
        if not (is_given(fields, "max_tokens") or is_given(fields, "max_completion_tokens")):
            fields["max_tokens"] = _NATIVE_OUTPUT_TOKENS
        _wrap_flat_tools(fields)
    for name in ("prompt", "raw", "lora"):
        fields.pop(name, None)
    return fields


def envelope(result: bytes) -> bytes:
    """Wrap a successful answer."""
    return b'{"result":%s,"success":true,"errors":[],"messages":[]}' % result


def task_envelope(result: bytes, task_id: str) -> bytes:
    """Wrap the answer to a submission: `taskId` is also beside `result`, where clients read it."""
    return b'{"taskId":"%s",%s' % (task_id.encode(), envelope(result)[1:])


def native_result(answer: bytes) -> bytes:
    """Convert a chat completion to the Llama-era shape: text, flat tool calls, usage."""
    completion = _decode_completion(answer)
    return _encode_native(completion, completion.choices[0].message.content)


def native_json_result(answer: bytes) -> bytes:
    """Convert a chat completion in JSON mode, where `response` is the object itself."""
    completion = _decode_completion(answer)
    content = completion.choices[0].message.content
    return _encode_native(completion, None if content is None else _parsed(content))


def _encode_native(completion: "_Completion", response: object) -> bytes:
    message = completion.choices[0].message
    result: dict[str, object] = {"response": response}
    if message.tool_calls:
        result["tool_calls"] = [_flat_call(call.function) for call in message.tool_calls]
    usage = given(completion.usage)
    if usage is not None:
        result["usage"] = usage
    return msgspec.json.encode(result)


def _decode_completion(answer: bytes) -> "_Completion":
    try:
        completion = _completion_decoder.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
        raise EngineFailed(f"The engine's answer has no known shape: {bad}") from None
    if not completion.choices:
        raise EngineFailed("The engine's answer has no choices.")
    return completion


def _flat_call(function: "_Function") -> dict[str, object]:
    return {"name": function.name, "arguments": _parsed(function.arguments or "{}")}


def _parsed(text: str) -> Raw | str:
    """Return a model's JSON text as raw JSON, exact to the last digit."""
    try:
        return _raw_decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        # Cut by max_tokens: half an object is passed on as text, so that nothing is hidden.
        return text


def _refuse_unknown_forms(fields: Fields, model: Model) -> None:
    if _LORA.read(fields) and not model.has(Capability.LORA):
        raise LoraUnsupported(f"{model.id} takes no LoRA adapters.", param="lora")
    if _RAW.read(fields):
        raise InvalidRequest(
            "`raw: true` is not supported: the chat template is applied.", param="raw"
        )
    if is_given(fields, "functions") and model.family is Family.NATIVE:
        raise InvalidRequest(
            "`functions` with code are not run here: send `tools`.", param="functions"
        )
    if is_given(fields, "image"):
        raise InvalidRequest(
            "Top-level `image` is not supported: send an `image_url` part in `messages`.",
            param="image",
        )


def _wrap_flat_tools(fields: Fields) -> None:
    tools = _TOOLS.read(fields)
    if not tools:
        return
    check_count(len(tools), "tools")
    wrapped: list[object] = []
    for tool in tools:
        try:
            names = _fields_decoder.decode(tool)
        except msgspec.DecodeError as bad:
            raise InvalidRequest(f"`tools`: {bad}", param="tools") from None
        is_flat = "name" in names and "function" not in names
        wrapped.append({"type": "function", "function": tool} if is_flat else tool)
    fields["tools"] = Raw(msgspec.json.encode(wrapped))


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    function: _Function


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: Raw | UnsetType = UNSET


_raw_decoder = msgspec.json.Decoder(Raw)
_completion_decoder = msgspec.json.Decoder(_Completion)
