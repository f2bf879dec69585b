"""Lists of items, as OpenAI pages them."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from penstock.errors import InvalidRequest
from penstock.ingress.pages.file_pages import page_limit
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.server_calls import public_item
from penstock.wire.resources.responses import ItemList

_DEFAULT: Final = 20
_MAX: Final = 100
_ORDERS: Final = ("asc", "desc")


class PageAsked(msgspec.Struct, frozen=True):
    """Which part of a list is asked for: the newest first, unless it says otherwise."""

    limit: int
    is_oldest_first: bool
    after: str | None


def page_asked(query: Mapping[str, str]) -> PageAsked:
    """Read a page's query."""
    order = query.get("order", "desc")
    if order not in _ORDERS:
        raise InvalidRequest("`order` is asc or desc.", param="order")
    limit = page_limit(query.get("limit"), _DEFAULT, _MAX)
    return PageAsked(limit, order == "asc", query.get("after") or None)


def item_list(items: Sequence[Item], *, has_more: bool) -> ItemList:
    """Return a page of items."""
    page = [shown_item(item) for item in items]
    return ItemList(
        data=page,
        first_id=page[0]["id"] if page else None,
        last_id=page[-1]["id"] if page else None,
        has_more=has_more,
    )


def shown_item(item: Item) -> Item:
    """Return an item with what clients expect of every item, and requests may leave out."""
    if item.get("type", "message") != "message":
        return public_item(item)
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    if isinstance(content, list):
        content = [_shown_part(part) for part in content]
    return {**item, "type": "message", "status": "completed", "content": content}


def _shown_part(part: Item) -> Item:
    return {"annotations": [], **part} if part.get("type") == "output_text" else part
