"""Describes the pages of stored responses for `/openapi.json`, on both surfaces."""

from typing import Final

from penstock.ingress.pages.openapi_parts import Schema, number, operation, parameter, ref
from penstock.wire.resources import responses

STATE_TYPES: Final = (responses.ResponseDeleted, responses.ItemList)
_ON_WORKERS_AI: Final = "/client/v4/accounts/{account_id}/ai"


def state_paths() -> Schema:
    account = parameter("account_id", "path", "The account.")
    return {
        **_response_paths("/v1", [], "OpenAIErrorAnswer"),
        **_response_paths(f"{_ON_WORKERS_AI}/v1", [account], "EnvelopeErrorAnswer"),
    }


def _response_paths(base: str, shared: list[Schema], error: str) -> Schema:
    one = [*shared, parameter("id", "path", "The response.")]
    page = [
        *one,
        number("limit", 100),
        parameter("order", "query", "`desc`, the newest first, or `asc`."),
        parameter("after", "query", "The last id of the page before."),
    ]
    return {
        f"{base}/responses/{{id}}": {
            "get": operation("A stored response", ref("Response"), error, "", one),
            "delete": operation(
                "Delete a stored response for good", ref("ResponseDeleted"), error, "", one
            ),
        },
        f"{base}/responses/{{id}}/input_items": {
            "get": operation("What a response was asked with", ref("ItemList"), error, "", page)
        },
    }
