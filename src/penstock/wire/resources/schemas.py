"""Requests and answers as clients may write and read them: the source of `/openapi.json`.

The hot path does not decode into these: it reads what it must and passes the rest through. They
list what is understood; engines may know more fields, and unknown ones are passed on.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType


class ImageUrl(msgspec.Struct):
    """Where an image is: a `data:` URL, or an address where the gateway's settings allow it."""

    url: str
    detail: str | UnsetType | None = UNSET


class ContentPart(msgspec.Struct):
    """A piece of a message: text, or an image as a `data:` URL."""

    type: Literal["text", "image_url", "input_audio", "file"]
    text: str | UnsetType = UNSET
    image_url: ImageUrl | UnsetType = UNSET


class ResponseFormat(msgspec.Struct):
    """The structure of an answer: `text`, `json_object`, or `json_schema` with its schema."""

    type: str
    json_schema: dict[str, Any] | UnsetType = UNSET


class ToolCallFunction(msgspec.Struct):
    """What a model wants called; arguments are JSON text."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct):
    """A call that a model asks for. Ids may repeat across turns."""

    id: str
    function: ToolCallFunction
    type: Literal["function"] = "function"


class ChatMessage(msgspec.Struct):
    """One message of a conversation."""

    role: Literal["developer", "system", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[ToolCall] | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    reasoning_content: str | UnsetType | None = UNSET
    reasoning: str | UnsetType | None = UNSET


class StreamOptionsSchema(msgspec.Struct):
    """What a stream carries beside text."""

    include_usage: bool | UnsetType = UNSET
    continuous_usage_stats: bool | UnsetType = UNSET


class OptionsSchema(msgspec.Struct):
    """Workers AI's options; they may also come in the query or as headers."""

    rejectIfBusy: bool | UnsetType = UNSET  # noqa: N815 - Workers AI's spelling
    # On `/ai/run` only.
    queueRequest: bool | UnsetType = UNSET  # noqa: N815 - Workers AI's spelling


class _Sampling(msgspec.Struct):
    max_tokens: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    max_completion_tokens: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    temperature: Annotated[float, Meta(ge=0, le=2)] | UnsetType | None = UNSET
    top_p: Annotated[float, Meta(gt=0, le=1)] | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET
    n: Annotated[int, Meta(ge=1, le=128)] | UnsetType | None = UNSET
    stop: str | list[str] | UnsetType | None = UNSET
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | UnsetType | None = UNSET
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | UnsetType | None = UNSET
    logprobs: bool | UnsetType | None = UNSET
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | UnsetType | None = UNSET
    tools: list[dict[str, Any]] | UnsetType | None = UNSET
    tool_choice: str | dict[str, Any] | UnsetType | None = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    response_format: ResponseFormat | UnsetType | None = UNSET
    reasoning_effort: str | UnsetType | None = UNSET
    chat_template_kwargs: dict[str, Any] | UnsetType = UNSET
    prompt_cache_key: str | UnsetType | None = UNSET
    # `flex` queues the request at a lower price; any other value makes it a live request.
    service_tier: str | UnsetType | None = UNSET
    options: OptionsSchema | UnsetType = UNSET
    stream: bool | UnsetType | None = UNSET
    stream_options: StreamOptionsSchema | UnsetType | None = UNSET


class ChatCompletionRequest(_Sampling, kw_only=True):
    """`POST /v1/chat/completions`."""

    model: str
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]


class RunMessagesRequest(_Sampling, kw_only=True):
    """`POST …/ai/run/{model}` with messages."""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]


class RunPromptRequest(_Sampling, kw_only=True):
    """`POST …/ai/run/{model}` with a prompt."""

    prompt: Annotated[str, Meta(min_length=1)]


class QueuedItem(_Sampling, kw_only=True):
    """One request of several that are queued together: `messages` or a `prompt`."""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)] | UnsetType = UNSET
    prompt: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    external_reference: Annotated[str, Meta(max_length=512)] | UnsetType | None = UNSET


class RunQueuedRequest(msgspec.Struct):
    """`POST …/ai/run/{model}?queueRequest=true`: several requests, answered later."""

    requests: Annotated[list[QueuedItem], Meta(min_length=1)]


class RunPollRequest(msgspec.Struct):
    """Asks how far a queued submission is, or for its answers."""

    request_id: str


class RunRequest(msgspec.Struct):
    """`POST …/ai/run`, where the body names the model."""

    model: str
    input: RunMessagesRequest


class PromptTokensDetails(msgspec.Struct):
    """The part of a prompt that came out of the prefix cache."""

    cached_tokens: int | None = None


class UsageSchema(msgspec.Struct):
    """Tokens of one answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None


class Choice(msgspec.Struct):
    """One answer of `n`."""

    index: int
    message: ChatMessage
    finish_reason: str | None
    logprobs: dict[str, Any] | None = None


class ChatCompletion(msgspec.Struct):
    """An answer that is not streamed."""

    id: str
    object: str
    created: int
    model: str
    choices: list[Choice]
    usage: UsageSchema | None = None


class NativeToolCall(msgspec.Struct):
    """A tool call as native-family models give it: no id, arguments as an object."""

    name: str
    arguments: dict[str, Any]


class NativeResult(msgspec.Struct):
    """What native-family models answer on `/ai/run`."""

    response: str | dict[str, Any] | None
    tool_calls: list[NativeToolCall] | UnsetType = UNSET
    usage: UsageSchema | UnsetType = UNSET
