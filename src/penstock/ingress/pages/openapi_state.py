"""Describes the pages of responses and conversations for `/openapi.json`, on both surfaces."""

from typing import Final

from penstock.ingress.pages.openapi_parts import Schema, number, operation, parameter, ref
from penstock.wire.resources import conversations, responses

STATE_TYPES: Final = (
    responses.ResponseDeleted, responses.ItemList,
    conversations.CreateConversation, conversations.UpdateConversation, conversations.AddItems,
    conversations.ConversationObject, conversations.ConversationDeleted,
)  # fmt: skip
_ON_WORKERS_AI: Final = "/client/v4/accounts/{account_id}/ai"
_PAGE: Final = [
    number("limit", 100),
    parameter("order", "query", "`desc`, the newest first, or `asc`."),
    parameter("after", "query", "The last id of the page before."),
]

_STREAM: Final = [
    parameter("stream", "query", "`true`: the events of a background response, as they come."),
    parameter("starting_after", "query", "Only events after this `sequence_number`."),
]


def state_paths() -> Schema:
    account = parameter("account_id", "path", "The account.")
    return {
        **_response_paths("/v1", [], "OpenAIErrorAnswer"),
        **_response_paths(f"{_ON_WORKERS_AI}/v1", [account], "EnvelopeErrorAnswer"),
        **_conversation_paths("/v1", [], "OpenAIErrorAnswer"),
        **_conversation_paths(f"{_ON_WORKERS_AI}/v1", [account], "EnvelopeErrorAnswer"),
    }


def _response_paths(base: str, shared: list[Schema], error: str) -> Schema:
    one = [*shared, parameter("id", "path", "The response.")]
    page = [*one, *_PAGE]
    return {
        f"{base}/responses/{{id}}": {
            "get": operation("A stored response", ref("Response"), error, "", [*one, *_STREAM]),
            "delete": operation(
                "Delete a stored response for good", ref("ResponseDeleted"), error, "", one
            ),
        },
        f"{base}/responses/{{id}}/cancel": {
            "post": operation("Cancel a background response", ref("Response"), error, "", one)
        },
        f"{base}/responses/{{id}}/input_items": {
            "get": operation("What a response was asked with", ref("ItemList"), error, "", page)
        },
    }


def _conversation_paths(base: str, shared: list[Schema], error: str) -> Schema:
    one = [*shared, parameter("id", "path", "The conversation.")]
    item = [*one, parameter("item_id", "path", "The item.")]
    shown, items = ref("ConversationObject"), ref("ItemList")
    path = f"{base}/conversations"
    return {
        path: {
            "post": operation("Begin a conversation", shown, error, "CreateConversation", shared)
        },
        f"{path}/{{id}}": {
            "get": operation("A conversation, without its items", shown, error, "", one),
            "post": operation("Replace its metadata", shown, error, "UpdateConversation", one),
            "delete": operation(
                "Delete a conversation with its items", ref("ConversationDeleted"), error, "", one
            ),
        },
        f"{path}/{{id}}/items": {
            "get": operation("Its items, page by page", items, error, "", [*one, *_PAGE]),
            "post": operation("Add items to it", items, error, "AddItems", one),
        },
        f"{path}/{{id}}/items/{{item_id}}": {
            "get": operation("One item", {"type": "object"}, error, "", item),
            "delete": operation("Delete one item", shown, error, "", item),
        },
    }
