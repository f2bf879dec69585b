"""Ids of conversations and of items that callers add to them. Pure."""

import re
from collections.abc import Sequence
from typing import Final, NewType

from penstock.clock import new_id
from penstock.sessions.response_ids import item_prefix, read_item_id, with_dashes
from penstock.wire.apis.response_items import Item

ConversationId = NewType("ConversationId", str)

_CONVERSATION: Final = re.compile(r"conv_([0-9a-f]{32})")
_ADDED: Final = re.compile(r"[a-z]{1,8}_[0-9a-f]{32}c\d{1,6}")


def shown_conversation(id: ConversationId) -> str:
    """Return an id as clients get it."""
    return f"conv_{id.replace('-', '')}"


def read_conversation_id(text: str) -> ConversationId | None:
    """Return the id that a client sent; None if it is none of ours."""
    found = _CONVERSATION.fullmatch(text)
    return ConversationId(with_dashes(found[1])) if found else None


def with_added_ids(items: Sequence[Item]) -> list[Item]:
    """Return items that a caller adds: each has an id of ours. Ids of stored items stay."""
    key = new_id().replace("-", "")
    return [
        item
        if is_item_id(str(item.get("id")))
        else {**item, "id": f"{item_prefix(item)}_{key}c{place}"}
        for place, item in enumerate(items)
    ]


def is_item_id(id: str) -> bool:
    """Return whether an item of a conversation may have this id."""
    return read_item_id(id) is not None or _ADDED.fullmatch(id) is not None
