"""Replaces references to stored items by the items that they name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from penstock.errors import InvalidRequest, NotFound
from penstock.records.account import AccountId
from penstock.sessions import ResponseBook, ResponseId, StoredResponse
from penstock.sessions.response_ids import read_item_id
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.stored_state import referred_to

# How much of the responses that are referred to is in memory at a time.
_SLICE_BYTES: Final = 4 * 2**20


async def resolved(book: ResponseBook, account: AccountId, items: Sequence[Item]) -> list[Item]:
    """Return the items with references replaced by what they refer to; an id counts once."""
    ids = [referred_to(item, f"input.{at}") for at, item in enumerate(items)]
    named = await _named(book, account, [id for id in ids if id is not None])
    made: list[Item] = []
    seen: set[str] = set()
    for at, (id, item) in enumerate(zip(ids, items, strict=True)):
        if id is None:
            made.append(item)
        elif id not in seen:
            seen.add(id)
            if id not in named:
                raise NotFound(f"There is no item {id}.", param=f"input.{at}")
            made.append(named[id])
    return made


async def _named(book: ResponseBook, account: AccountId, ids: Sequence[str]) -> dict[str, Item]:
    """Return the stored items with these ids, by their ids."""
    wanted: dict[ResponseId, set[str]] = {}
    for id in ids:
        place = read_item_id(id)
        if place is not None:
            wanted.setdefault(place.response, set()).add(id)
    if len(wanted) > book.chain_max:
        raise InvalidRequest(
            f"The items are of more than {book.chain_max} responses.", param="input"
        )
    named: dict[str, Item] = {}
    size = 0
    sizes = await book.sizes(account, list(wanted)) if wanted else {}
    for some in _slices(sizes):
        found = await book.find_many(account, some)
        for id in (id for response in some for id in wanted[response]):
            item = _item(id, found)
            if item is not None:
                named[id] = item
                size += len(msgspec.json.encode(item))
        if size > book.context_bytes_max:
            raise InvalidRequest(
                f"The items are larger than {book.context_bytes_max} bytes.", param="input"
            )
    return named


def _slices(sizes: Mapping[ResponseId, int]) -> Iterator[list[ResponseId]]:
    """Yield the responses, so many at a time that they are small together, or one that is not."""
    some: list[ResponseId] = []
    total = 0
    for id, size in sizes.items():
        if some and total + size > _SLICE_BYTES:
            yield some
            some, total = [], 0
        some.append(id)
        total += size
    if some:
        yield some


def _item(id: str, found: Mapping[ResponseId, StoredResponse]) -> Item | None:
    place = read_item_id(id)
    response = None if place is None else found.get(place.response)
    if place is None or response is None:
        return None
    items = response.input if place.is_input else response.response["output"]
    return items[place.place] if place.place < len(items) else None
