"""Replaces references to stored items by the items that they name."""

from collections.abc import Mapping, Sequence

from penstock.errors import NotFound
from penstock.records.account import AccountId
from penstock.sessions import ResponseBook, ResponseId, StoredResponse
from penstock.sessions.response_ids import read_item_id
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.stored_state import referred_to


async def resolved(book: ResponseBook, account: AccountId, items: Sequence[Item]) -> list[Item]:
    """Return the items with references replaced by what they refer to; an id counts once."""
    ids = [referred_to(item, f"input.{at}") for at, item in enumerate(items)]
    places = [read_item_id(id) for id in ids if id is not None]
    if not places:
        return list(items)
    wanted = list({place.response: None for place in places if place is not None})
    found = await book.find_many(account, wanted)
    made: list[Item] = []
    seen: set[str] = set()
    for at, (id, item) in enumerate(zip(ids, items, strict=True)):
        if id is None:
            made.append(item)
        elif id not in seen:
            seen.add(id)
            made.append(_item(id, found, f"input.{at}"))
    return made


def _item(id: str, found: Mapping[ResponseId, StoredResponse], param: str) -> Item:
    place = read_item_id(id)
    response = None if place is None else found.get(place.response)
    if place is None or response is None:
        raise NotFound(f"There is no item {id}.", param=param)
    items = response.input if place.is_input else response.response["output"]
    if place.place >= len(items):
        raise NotFound(f"There is no item {id}.", param=param)
    return items[place.place]
