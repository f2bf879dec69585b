"""Serves Responses requests that refer to stored state, or whose response is to be stored.

Before the request: the chain or the conversation that it goes on from becomes messages in front of
its own, and references become the items that they name. After the answer: input and response are
stored in one transaction, before the client gets the last byte, so that a client that chains at
once finds them.
"""

import logging
from contextlib import suppress

import msgspec
from msgspec import Raw

from penstock.errors import (
    ConversationLocked,
    InvalidRequest,
    NotFound,
    ResponseNotFound,
    StateUnavailable,
    StoreUnavailable,
)
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.intake.rewriting import as_chat, input_items
from penstock.intake.routes import Wanted
from penstock.intake.storage_policy import StoragePolicy
from penstock.records.account import AccountId
from penstock.records.request import InferenceRequest, RequestId
from penstock.sessions import (
    CONTINUED,
    NewResponse,
    ResponseId,
    SessionBooks,
    StoredResponse,
    Tenure,
)
from penstock.sessions.conversation_book import NewItems, not_found
from penstock.sessions.conversation_ids import ConversationId, read_conversation_id
from penstock.sessions.response_book import PreparedResponse
from penstock.sessions.response_ids import read_response_id, shown, with_ids
from penstock.store import Store, Transaction
from penstock.turns.references import resolved
from penstock.turns.tool_offers import ToolOffers, TurnTools
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_object import Response
from penstock.wire.apis.responses import check_input
from penstock.wire.apis.stored_state import StateWish, may_refer
from penstock.wire.json_body import Fields, is_given

logger = logging.getLogger(__name__)


class Before(msgspec.Struct, frozen=True):
    """What goes before a request: items turn by turn, of a conversation or a chain of responses."""

    groups: list[list[Item]] = []
    bytes: int = 0
    conversation: str = ""
    previous: StoredResponse | None = None

    @property
    def session(self) -> str:
        """The name of the session that the request belongs to, if its caller names none."""
        if self.previous is not None:
            return shown(self.previous.root)
        return self.conversation


class StoredTurn(msgspec.Struct):
    """One request with its state. `keeps` says whether its response is stored."""

    # The chat request to be served.
    opened: OpenedRequest
    # The items that the request sent, with references replaced by what they refer to.
    input: list[Item]
    keeps: bool
    previous: StoredResponse | None = None
    # The right to write into the conversation that the request names.
    tenure: Tenure | None = None
    is_background: bool = False
    # The tools of the request that run here; None if it has none.
    tools: TurnTools | None = None
    # Its row, if that is written before its end.
    begun: ResponseId | None = None


class StoredTurns:
    """Begins and ends turns. `unstored` counts responses that were served but not stored."""

    def __init__(
        self,
        store: Store,
        books: SessionBooks,
        reader: RequestReader,
        policy: StoragePolicy,
        media_hosts: frozenset[str],
        offers: ToolOffers | None = None,
    ) -> None:
        self._store = store
        self._reader = reader
        self._books = books
        self._policy = policy
        self._media_hosts = media_hosts
        self._offers = offers
        self.unstored = 0

    async def begin(self, request_id: RequestId, opened: OpenedRequest) -> StoredTurn:
        """Load what goes before a request, and return it as the chat request to be served.

        Where Postgres does not answer, a request that needs nothing of it is served unstored. A
        turn that keeps its response ends with `end` or `give_up`.
        """
        wish = opened.state
        assert wish is not None, "a request without state is not a turn"
        await self._reader.read_by_size(
            opened.body_bytes,
            lambda _: _check_input(opened.fields, wish),
            opened.route.inline_bytes_max,
        )
        is_answer = opened.route.wanted is Wanted.ANSWER
        keeps = is_answer and self._policy.stores(wish)
        if wish.is_background and not keeps:
            raise InvalidRequest("A background response is stored.", param="background")
        tenure: Tenure | None = None
        try:
            if keeps:
                tenure = await self._reserve(opened.grant.account, wish, ResponseId(request_id))
            turn = await self._load(opened, wish, keeps=keeps)
        except StoreUnavailable:
            if wish.needs:
                await self._release(tenure)
                raise
            self._note_unstored()
            turn = await self._as_turn(opened, None, Before(), keeps=False)
        except BaseException:
            await self._release(tenure)
            raise
        turn.tenure, turn.is_background = tenure, wish.is_background
        return turn

    async def write_begun(
        self, turn: StoredTurn, request: InferenceRequest, response: Response
    ) -> None:
        """Write the row of a response that takes several steps, before the first of them."""
        new = new_response_of(turn, request, response)
        try:
            prepared = await self._books.responses.prepare(new)
            async with self._store.transaction() as tx:
                await self._books.responses.insert(tx, prepared)
                await self._books.turns.begin(tx, new.id)
            turn.begun = new.id
        except StoreUnavailable:
            turn.keeps = response["store"] = False
            self._note_unstored()
            self._books.turns.drop(new.id)
            await self._release(turn.tenure)
        except BaseException:
            # The caller left: the row may be written.
            turn.begun = new.id
            await self.give_up(turn)
            raise

    async def end(self, turn: StoredTurn, request: InferenceRequest, response: Response) -> None:
        """Store the response of a turn that keeps it; one that cannot be stored says so itself."""
        new = new_response_of(turn, request, response)
        try:
            if turn.begun is not None:
                await self._end_begun(turn, new)
            elif turn.tenure is not None and response["status"] in CONTINUED:
                await self._add_to_conversation(turn.tenure, new)
            else:
                await self._books.responses.add(new)
                await self._release(turn.tenure)
        except (StoreUnavailable, ConversationLocked):
            response["store"] = False
            self._note_unstored()
            self._books.turns.drop(new.id)
            await self._release(turn.tenure)
        except BaseException:
            # Cancelled: it may be stored, or may be tried again.
            if turn.tenure is not None:
                self._books.tenures.drop(turn.tenure)
            raise

    async def give_up(self, turn: StoredTurn) -> None:
        """End a turn of which nothing is to be stored."""
        await self._release(turn.tenure)
        if turn.begun is not None:
            self._books.turns.drop(turn.begun)
            with suppress(StoreUnavailable, NotFound):
                await self._books.responses.delete(turn.opened.grant.account, turn.begun)

    def drop(self, turn: StoredTurn) -> None:
        """Let go of a turn of which nobody knows whether it is stored."""
        if turn.tenure is not None:
            self._books.tenures.drop(turn.tenure)

    async def _reserve(
        self, account: AccountId, wish: StateWish, response: ResponseId
    ) -> Tenure | None:
        """Refuse what could not be stored; take the right to write into a conversation."""
        await self._books.responses.check_quota(account, is_asked=wish.needs == "store")
        if not wish.conversation:
            return None
        id = _conversation_id(wish)
        await self._books.conversations.check_room(account, id)
        return await self._books.tenures.take(account, id, response)

    async def _load(self, opened: OpenedRequest, wish: StateWish, *, keeps: bool) -> StoredTurn:
        account = opened.grant.account
        before = await self._before(account, wish)
        items = None
        if wish.needs == "input" or may_refer(opened.fields):
            items = await self._reader.read_by_size(
                opened.body_bytes,
                lambda _: input_items(opened.fields),
                opened.route.inline_bytes_max,
            )
            items = await resolved(self._books.responses, account, items)
        return await self._as_turn(opened, items, before, keeps=keeps)

    async def _before(self, account: AccountId, wish: StateWish) -> Before:
        if wish.conversation:
            id = _conversation_id(wish)
            bytes_max = self._books.responses.context_bytes_max
            groups, size = await self._books.conversations.groups(account, id, bytes_max)
            return Before(groups, size, wish.conversation)
        if not wish.previous:
            return Before()
        response = read_response_id(wish.previous)
        if response is None:
            raise ResponseNotFound(param="previous_response_id")
        chain = await self._books.responses.chain(account, response)
        groups = [group for each in chain for group in (each.input, each.response["output"])]
        size = sum(each.bytes for each in chain)
        return Before(groups, size, previous=chain[-1])

    async def _as_turn(
        self, opened: OpenedRequest, items: list[Item] | None, before: Before, *, keeps: bool
    ) -> StoredTurn:
        """Rewrite the request; a long one in the thread that reads large requests.

        `items` are those of its input, or None where that has no references.
        """
        tools = await self._offer(opened, items, before)
        turn = await self._reader.read_by_size(
            opened.body_bytes + before.bytes,
            lambda _: self._rewritten(opened, items, before, tools),
            opened.route.inline_bytes_max,
        )
        assert turn.opened.composed is not None, "it was a Responses request"
        turn.keeps = turn.opened.composed.echo["store"] = keeps
        return turn

    async def _offer(
        self, opened: OpenedRequest, items: list[Item] | None, before: Before
    ) -> TurnTools | None:
        """Return the tools of a request that run here, as functions; None if it has none."""
        if opened.tools is None or self._offers is None:
            return None
        if opened.tools.code is not None and not self._policy.may_store(opened.account):
            raise StateUnavailable(
                "Copies of containers' files are kept for a while, and nothing is kept for this"
                " account.",
                param="tools",
            )
        own = items
        if own is None:
            own = await self._reader.read_by_size(
                opened.body_bytes,
                lambda _: input_items(opened.fields),
                opened.route.inline_bytes_max,
            )
        return await self._offers.offer(opened, opened.tools, [*before.groups, own])

    def _rewritten(
        self,
        opened: OpenedRequest,
        items: list[Item] | None,
        before: Before,
        tools: TurnTools | None,
    ) -> StoredTurn:
        served = opened
        if items is None:
            items = input_items(opened.fields)
        else:
            served = opened.with_fields({**opened.fields, "input": Raw(msgspec.json.encode(items))})
        functions = None if tools is None else list(tools.functions.values())
        rewritten = as_chat(served, self._media_hosts, before.groups, functions)
        rewritten.session = before.session
        assert rewritten.composed is not None, "it was a Responses request"
        if tools is not None:
            tools.allow(rewritten.fields)
        if tools is not None and tools.choices:
            rewritten.composed.echo["tools"] = tools.shown(rewritten.composed.echo["tools"])
        if before.conversation:
            rewritten.composed.echo["conversation"] = {"id": before.conversation}
        return StoredTurn(rewritten, items, keeps=False, previous=before.previous, tools=tools)

    async def _add_to_conversation(self, tenure: Tenure, new: NewResponse) -> None:
        books, id = self._books, tenure.conversation
        prepared = await books.responses.prepare(new)
        groups = [
            await books.conversations.prepare(new.account, id, items)
            for items in (new.input, new.response["output"])
        ]
        try:
            await self._write_both(prepared, tenure, groups)
        except ConversationLocked:
            await books.conversations.discard(groups)
            await books.responses.discard(prepared)
            raise

    async def _write_both(
        self, prepared: PreparedResponse, tenure: Tenure, groups: list[NewItems]
    ) -> None:
        """Write a response and its conversation's items in one transaction, or nothing."""
        account = prepared.new.account
        async with self._store.transaction() as tx:
            await self._books.responses.insert(tx, prepared)
            await self._append(tx, tenure, account, groups)

    async def _append(
        self, tx: Transaction, tenure: Tenure, account: AccountId, groups: list[NewItems]
    ) -> None:
        if not await self._books.tenures.append(tx, tenure, account, groups):
            raise ConversationLocked

    async def _end_begun(self, turn: StoredTurn, new: NewResponse) -> None:
        """End a response that has its row: with its conversation's items, or nothing."""
        books, tenure = self._books, turn.tenure
        ending = await books.responses.prepare_end(new.account, new.id, new.response)
        groups = []
        if tenure is not None and new.response["status"] in CONTINUED:
            groups = [
                await books.conversations.prepare(new.account, tenure.conversation, items)
                for items in (new.input, new.response["output"])
            ]
        is_stored = False
        try:
            async with self._store.transaction() as tx:
                await books.turns.end(tx, new.id)
                is_stored = await books.responses.end(tx, ending)
                if tenure is not None and groups:
                    await self._append(tx, tenure, new.account, groups)
                elif tenure is not None:
                    await books.tenures.release_in(tx, tenure)
                    books.tenures.drop(tenure)
        except ConversationLocked:
            if is_stored:
                # It would have been: so no earlier try has stored these items.
                await books.conversations.discard(groups)
            await books.responses.discard_end(new.account, ending)
            raise
        if not is_stored:
            # It was deleted, or control ended it.
            new.response["store"] = False
            await books.responses.discard_end(new.account, ending)

    async def _release(self, tenure: Tenure | None) -> None:
        if tenure is not None:
            await self._books.tenures.release(tenure)

    def _note_unstored(self) -> None:
        self.unstored += 1
        logger.warning("response not stored", extra={"action": "response_unstored"})


def new_response_of(turn: StoredTurn, request: InferenceRequest, response: Response) -> NewResponse:
    """Return what is stored of a turn."""
    before, id = turn.previous, ResponseId(request.id)
    return NewResponse(
        id=id,
        account=request.account,
        key=request.key,
        model=request.model.id,
        response=response,
        input=with_ids(id, turn.input),
        previous=None if before is None else before.id,
        root=id if before is None else before.root,
        depth=0 if before is None else before.depth + 1,
        is_background=turn.is_background,
        tenure=turn.tenure,
    )


def _check_input(fields: Fields, wish: StateWish) -> None:
    """Refuse a wrong input; one that goes on from something may have none."""
    goes_on = bool(wish.previous or wish.conversation)
    if not goes_on or (is_given(fields, "input") and bytes(fields["input"]) != b"[]"):
        check_input(fields)


def _conversation_id(wish: StateWish) -> ConversationId:
    id = read_conversation_id(wish.conversation)
    if id is None:
        raise not_found()
    return id
