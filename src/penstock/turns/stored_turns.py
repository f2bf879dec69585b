"""Serves Responses requests that refer to stored state, or whose response is to be stored.

Before the request: the chain that it goes on from becomes messages in front of its own, and
references become the items that they name. After the answer: input and response are stored in one
transaction, before the client gets the last byte, so that a client that chains at once finds them.
"""

import logging
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from penstock.errors import NotFound, ResponseNotFound, StoreUnavailable
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.rewriting import as_chat, input_items
from penstock.intake.routes import Wanted
from penstock.intake.storage_policy import StoragePolicy
from penstock.records.account import AccountId
from penstock.records.request import InferenceRequest
from penstock.sessions import NewResponse, ResponseBook, ResponseId, StoredResponse
from penstock.sessions.response_ids import read_item_id, read_response_id, shown, with_ids
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_object import Response
from penstock.wire.apis.responses import check_input
from penstock.wire.apis.stored_state import StateWish, referred_to

logger = logging.getLogger(__name__)


class StoredTurn(msgspec.Struct):
    """One request with its state. `keeps` says whether its response is stored."""

    # The chat request to be served.
    opened: OpenedRequest
    # The items that the request sent, with references replaced by what they refer to.
    input: list[Item]
    keeps: bool
    previous: StoredResponse | None = None


class StoredTurns:
    """Begins and ends turns. `unstored` counts responses that were served but not stored."""

    def __init__(
        self, book: ResponseBook, policy: StoragePolicy, media_hosts: frozenset[str]
    ) -> None:
        self._book = book
        self._policy = policy
        self._media_hosts = media_hosts
        self.unstored = 0

    async def begin(self, opened: OpenedRequest) -> StoredTurn:
        """Load what goes before a request, and return it as the chat request to be served.

        Where Postgres does not answer, a request that needs nothing of it is served unstored.
        """
        wish = opened.state
        assert wish is not None, "a request without state is not a turn"
        check_input(opened.fields)
        items = input_items(opened.fields)
        keeps = opened.route.wanted is Wanted.ANSWER and self._policy.stores(wish)
        chain: list[StoredResponse] = []
        try:
            if keeps:
                await self._book.check_quota(opened.grant.account, is_asked=wish.needs == "store")
            chain = await self._chain(opened.grant.account, wish)
            items = await self._resolved(opened.grant.account, items)
        except StoreUnavailable:
            if wish.needs:
                raise
            keeps = False
            self._note_unstored()
        groups = [group for each in chain for group in (each.input, each.response["output"])]
        served = opened.with_fields({**opened.fields, "input": Raw(msgspec.json.encode(items))})
        rewritten = as_chat(served, self._media_hosts, groups)
        if chain:
            rewritten.session = shown(chain[-1].root)
        assert rewritten.composed is not None, "it was a Responses request"
        rewritten.composed.echo["store"] = keeps
        return StoredTurn(rewritten, items, keeps, chain[-1] if chain else None)

    async def end(self, turn: StoredTurn, request: InferenceRequest, response: Response) -> None:
        """Store the response of a turn that keeps it; one that cannot be stored says so itself."""
        before, id = turn.previous, ResponseId(request.id)
        new = NewResponse(
            id=id,
            account=request.account,
            key=request.key,
            model=request.model.id,
            response=response,
            input=with_ids(id, turn.input),
            previous=None if before is None else before.id,
            root=id if before is None else before.root,
            depth=0 if before is None else before.depth + 1,
        )
        try:
            await self._book.add(new)
        except StoreUnavailable:
            response["store"] = False
            self._note_unstored()

    def _note_unstored(self) -> None:
        self.unstored += 1
        logger.warning("response not stored", extra={"action": "response_unstored"})

    async def _chain(self, account: AccountId, wish: StateWish) -> list[StoredResponse]:
        if not wish.previous:
            return []
        id = read_response_id(wish.previous)
        if id is None:
            raise ResponseNotFound(param="previous_response_id")
        return await self._book.chain(account, id)

    async def _resolved(self, account: AccountId, items: Sequence[Item]) -> list[Item]:
        """Return the items with references replaced by what they refer to; an id counts once."""
        found: dict[ResponseId, StoredResponse] = {}
        resolved: list[Item] = []
        seen: set[str] = set()
        for at, item in enumerate(items):
            id = referred_to(item, f"input.{at}")
            if id is None:
                resolved.append(item)
            elif id not in seen:
                seen.add(id)
                resolved.append(await self._item(account, id, found, f"input.{at}"))
        return resolved

    async def _item(
        self, account: AccountId, id: str, found: dict[ResponseId, StoredResponse], param: str
    ) -> Item:
        """Return the item with this id; `found` has the responses that were read already."""
        missing = NotFound(f"There is no item {id}.", param=param)
        place = read_item_id(id)
        if place is None:
            raise missing
        if place.response not in found:
            try:
                found[place.response] = await self._book.find(account, place.response)
            except NotFound:
                raise missing from None
        response = found[place.response]
        items = response.input if place.is_input else response.response["output"]
        if place.place >= len(items):
            raise missing
        return items[place.place]
