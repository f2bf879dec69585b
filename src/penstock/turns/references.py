"""Replaces references to stored items by the items that they name."""

from collections.abc import Sequence

from penstock.errors import NotFound
from penstock.records.account import AccountId
from penstock.sessions import ResponseBook, ResponseId, StoredResponse
from penstock.sessions.response_ids import read_item_id
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.stored_state import referred_to


async def resolved(book: ResponseBook, account: AccountId, items: Sequence[Item]) -> list[Item]:
    """Return the items with references replaced by what they refer to; an id counts once."""
    found: dict[ResponseId, StoredResponse] = {}
    seen: set[str] = set()
    made: list[Item] = []
    for at, item in enumerate(items):
        id = referred_to(item, f"input.{at}")
        if id is None:
            made.append(item)
        elif id not in seen:
            seen.add(id)
            made.append(await _item(book, account, id, found, f"input.{at}"))
    return made


async def _item(
    book: ResponseBook,
    account: AccountId,
    id: str,
    found: dict[ResponseId, StoredResponse],
    param: str,
) -> Item:
    """Return the item with this id; `found` has the responses that were read already."""
    missing = NotFound(f"There is no item {id}.", param=param)
    place = read_item_id(id)
    if place is None:
        raise missing
    if place.response not in found:
        try:
            found[place.response] = await book.find(account, place.response)
        except NotFound:
            raise missing from None
    response = found[place.response]
    items = response.input if place.is_input else response.response["output"]
    if place.place >= len(items):
        raise missing
    return items[place.place]
