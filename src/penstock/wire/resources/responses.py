"""What the pages of stored responses answer, besides a response itself."""

from typing import Any, Literal

import msgspec


class ResponseDeleted(msgspec.Struct):
    """The answer of `DELETE /v1/responses/{id}`."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


class ItemList(msgspec.Struct):
    """A page of items."""

    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"
