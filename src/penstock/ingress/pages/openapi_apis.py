"""Describes the APIs other than chat for `/openapi.json`, on both surfaces."""

from typing import Any, Final

import msgspec

from penstock.wire.resources import api_schemas, errors

Schema = dict[str, Any]

API_TYPES: Final = (
    api_schemas.ResponsesRequest, api_schemas.RunInputRequest, api_schemas.Response,
    api_schemas.MessagesRequest, api_schemas.Message, api_schemas.TokenCount,
    api_schemas.ResponsesTokenCount, api_schemas.Compaction,
    api_schemas.CompletionRequest, api_schemas.Completion,
    api_schemas.EmbeddingsRequest, api_schemas.RunTextRequest, api_schemas.EmbeddingList,
    api_schemas.Vectors, errors.AnthropicErrorAnswer,
)  # fmt: skip


class _Described(msgspec.Struct, frozen=True):
    """One API: its path under `/v1`, what it takes and answers, and how its streams end."""

    path: str
    summary: str
    request: str
    answer: str
    # Empty if answers are never streamed.
    last_event: str = ""
    error: str = "OpenAIErrorAnswer"


_APIS: Final = (
    _Described(
        "/v1/responses",
        "A response to an input, stored if wanted",
        "ResponsesRequest",
        "Response",
        "event: response.completed",
    ),
    _Described(
        "/v1/messages",
        "A message, in Anthropic's shape",
        "MessagesRequest",
        "Message",
        "event: message_stop",
        "AnthropicErrorAnswer",
    ),
    _Described(
        "/v1/completions",
        "Go on with a text",
        "CompletionRequest",
        "Completion",
        "data: [DONE]",
    ),
    _Described(
        "/v1/responses/compact",
        "A conversation, compacted into a summary",
        "ResponsesRequest",
        "Compaction",
    ),
    _Described("/v1/embeddings", "Vectors of texts", "EmbeddingsRequest", "EmbeddingList"),
)
_COUNTS: Final = (
    _Described(
        "/v1/messages/count_tokens",
        "How many tokens a prompt of Messages has; nothing is run",
        "MessagesRequest",
        "TokenCount",
        error="AnthropicErrorAnswer",
    ),
    _Described(
        "/v1/responses/input_tokens",
        "How many tokens a prompt of Responses has; nothing is run",
        "ResponsesRequest",
        "ResponsesTokenCount",
    ),
)


def api_paths() -> Schema:
    account = {"name": "account_id", "in": "path", "required": True, "schema": {"type": "string"}}
    paths: Schema = {}
    for api in _APIS:
        on_workers_ai = f"/client/v4/accounts/{{account_id}}/ai{api.path}"
        paths[api.path] = _post(api, api.error, [])
        paths[on_workers_ai] = _post(api, "EnvelopeErrorAnswer", [account])
    for count in _COUNTS:
        paths[count.path] = _post(count, count.error, [])
    return paths


def _post(api: _Described, error: str, parameters: list[Schema]) -> Schema:
    failed = {"description": "An error; its code says which.", "content": _content(error)}
    served = _content(api.answer)
    if api.last_event:
        events = f"Server-sent events; the last begins with `{api.last_event}`."
        # No type: OpenAPI 3.1 leaves open whether a schema here describes one event or the stream.
        served["text/event-stream"] = {"schema": {"description": events}}
    return {
        "post": {
            "summary": api.summary,
            "parameters": parameters,
            "requestBody": {"required": True, "content": _content(api.request)},
            "responses": {
                "200": {"description": "OK", "content": served},
                "4XX": failed,
                "5XX": failed,
            },
        }
    }


def _content(name: str) -> Schema:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
