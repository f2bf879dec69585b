"""Ids of responses and their items, as clients see them. Pure.

A response's id is its request's, without dashes. An item's id has that of its response and its
place: `o` in the output, `i` in the input. So a reference to an item needs no index.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final, NamedTuple, NewType

from penstock.clock import timestamp_of
from penstock.wire.apis.response_items import Item

ResponseId = NewType("ResponseId", str)

_RESPONSE: Final = re.compile(r"resp_([0-9a-f]{32})")
# The milliseconds of the year 3084, before which every date can be reckoned.
_TIME_END: Final = 2**45
_PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "compaction": "cmp",
}
_ITEM: Final = re.compile(r"[a-z]{1,8}_([0-9a-f]{32})([io])(\d{1,6})")


class ItemPlace(NamedTuple):
    """Where an item is: in which response, in its input or its output, and at which place."""

    response: ResponseId
    is_input: bool
    place: int


def shown(id: ResponseId) -> str:
    """Return an id as clients get it."""
    return f"resp_{id.replace('-', '')}"


def read_response_id(text: str) -> ResponseId | None:
    """Return the id that a client sent; None if it is none of ours."""
    found = _RESPONSE.fullmatch(text)
    return ResponseId(with_dashes(found[1])) if found and _has_time(found[1]) else None


def day_of(id: ResponseId) -> date:
    """Return the day in an id, which is that of its row."""
    return datetime.fromtimestamp(timestamp_of(id), UTC).date()


def read_item_id(text: str) -> ItemPlace | None:
    """Return the place of an item that a client refers to; None if it is none of ours."""
    found = _ITEM.fullmatch(text)
    if found is None or not _has_time(found[1]):
        return None
    return ItemPlace(ResponseId(with_dashes(found[1])), found[2] == "i", int(found[3]))


def with_ids(response: ResponseId, items: Sequence[Item]) -> list[Item]:
    """Return input items as they are stored: each with an id that later requests can refer to.

    An item that was stored with another response keeps the id that it has there.
    """
    key = response.replace("-", "")
    return [
        item
        if read_item_id(str(item.get("id"))) is not None
        else {**item, "id": f"{item_prefix(item)}_{key}i{place}"}
        for place, item in enumerate(items)
    ]


def item_prefix(item: Item) -> str:
    """Return what the id of such an item begins with."""
    return _PREFIXES.get(item.get("type", "message"), "item")


def _has_time(digits: str) -> bool:
    """Return whether these may be digits of ours: a UUID of version 7, of this millennium."""
    return digits[12] == "7" and int(digits[:12], 16) < _TIME_END


def with_dashes(digits: str) -> str:
    """Return 32 hex digits as a UUID is written."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
