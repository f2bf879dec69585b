"""Requests and answers of the APIs beside chat, as `/openapi.json` shows them.

As in `schemas.py` they list what is understood; unknown fields are passed on to the engines.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.wire.resources.schemas import StreamOptionsSchema, UsageSchema

_Object = dict[str, Any]
_Items = Annotated[list[_Object], Meta(min_length=1)]
_Tokens = Annotated[int, Meta(ge=1)]


class _Responses(msgspec.Struct, kw_only=True):
    # A text, or items: messages, tool calls, their results, reasoning.
    input: str | _Items
    instructions: str | UnsetType | None = UNSET
    max_output_tokens: _Tokens | UnsetType | None = UNSET
    temperature: Annotated[float, Meta(ge=0, le=2)] | UnsetType | None = UNSET
    top_p: Annotated[float, Meta(gt=0, le=1)] | UnsetType | None = UNSET
    tools: list[_Object] | UnsetType = UNSET
    tool_choice: str | _Object | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType | None = UNSET
    text: _Object | UnsetType | None = UNSET
    reasoning: _Object | UnsetType | None = UNSET
    prompt_cache_key: str | UnsetType | None = UNSET
    # Nothing is stored: `true` is refused.
    store: Literal[False] | UnsetType | None = UNSET
    stream: bool | UnsetType | None = UNSET


class ResponsesRequest(_Responses, kw_only=True):
    """`POST /v1/responses`. What refers to something stored is refused."""

    model: str


class RunInputRequest(_Responses, kw_only=True):
    """`POST …/ai/run/{model}` with an input, where the model's family is `responses`."""


class ResponsesUsage(msgspec.Struct):
    """Tokens of one response; those that came out of the prefix cache are among the input's."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: _Object | UnsetType | None = UNSET
    output_tokens_details: _Object | UnsetType | None = UNSET


class Response(msgspec.Struct):
    """An answer that is not streamed: items of text, reasoning and tool calls."""

    id: str
    object: Literal["response"]
    created_at: int
    model: str
    status: str
    output: list[_Object]
    usage: ResponsesUsage | None = None


class MessagesRequest(msgspec.Struct, kw_only=True):
    """`POST /v1/messages`, in Anthropic's shape."""

    model: str
    messages: _Items
    max_tokens: _Tokens | UnsetType | None = UNSET
    system: str | list[_Object] | UnsetType | None = UNSET
    tools: list[_Object] | UnsetType | None = UNSET
    tool_choice: _Object | UnsetType | None = UNSET
    temperature: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET
    top_p: Annotated[float, Meta(gt=0, le=1)] | UnsetType | None = UNSET
    stop_sequences: list[str] | UnsetType | None = UNSET
    thinking: _Object | UnsetType | None = UNSET
    output_config: _Object | UnsetType | None = UNSET
    stream: bool | UnsetType | None = UNSET


class MessagesUsage(msgspec.Struct):
    """Tokens of one message; the prompt's are told in three parts, by what the cache did."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | UnsetType | None = UNSET
    cache_read_input_tokens: int | UnsetType | None = UNSET


class Message(msgspec.Struct):
    """An answer that is not streamed."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    content: list[_Object]
    model: str
    usage: MessagesUsage
    stop_reason: str | UnsetType | None = UNSET


class TokenCount(msgspec.Struct):
    """The answer of `POST /v1/messages/count_tokens`."""

    input_tokens: int


class Compaction(msgspec.Struct):
    """The answer of `POST /v1/responses/compact`: send `output` in front of what comes next."""

    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: list[_Object]
    usage: ResponsesUsage | None


class ResponsesTokenCount(msgspec.Struct):
    """The answer of `POST /v1/responses/input_tokens`."""

    object: Literal["response.input_tokens"]
    input_tokens: int


class CompletionRequest(msgspec.Struct, kw_only=True):
    """`POST /v1/completions`: a text to go on with, or several."""

    model: str
    prompt: Annotated[str, Meta(min_length=1)] | Annotated[list[Any], Meta(min_length=1)]
    max_tokens: _Tokens | UnsetType | None = UNSET
    temperature: Annotated[float, Meta(ge=0, le=2)] | UnsetType | None = UNSET
    n: Annotated[int, Meta(ge=1, le=128)] | UnsetType | None = UNSET
    stop: str | list[str] | UnsetType | None = UNSET
    stream: bool | UnsetType | None = UNSET
    stream_options: StreamOptionsSchema | UnsetType | None = UNSET


class CompletionChoice(msgspec.Struct):
    """One text of those that were asked for."""

    index: int
    text: str
    finish_reason: str | None


class Completion(msgspec.Struct):
    """An answer that is not streamed."""

    id: str
    object: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: UsageSchema | None = None


_Text = Annotated[str, Meta(min_length=1)]
_Texts = Annotated[list[_Text], Meta(min_length=1)]


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """`POST /v1/embeddings`: a vector for each text. Tokens may be sent instead of texts."""

    model: str
    input: _Text | Annotated[list[Any], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | UnsetType | None = UNSET
    dimensions: _Tokens | UnsetType | None = UNSET


class RunTextRequest(msgspec.Struct, kw_only=True):
    """`POST …/ai/run/{model}` with texts, where the model's family is `embeddings`."""

    text: _Text | _Texts


class Embedding(msgspec.Struct):
    """The vector of one text; as base64, if that was asked for, it is 32-bit floats."""

    index: int
    object: str
    embedding: list[float] | str


class EmbeddingList(msgspec.Struct):
    """The vectors, in the order of the texts."""

    object: str
    model: str
    data: list[Embedding]
    usage: UsageSchema | None = None


class Vectors(msgspec.Struct):
    """The same as Workers AI has it: how many there are and how long, and the vectors."""

    shape: list[int]
    data: list[list[float]]
