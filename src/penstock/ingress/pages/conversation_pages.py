"""`/v1/conversations`: conversations that callers keep here. Each account sees its own only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import InvalidRequest, NotFound
from penstock.ingress.pages.file_pages import account_of, key_of
from penstock.ingress.pages.item_lists import item_list, page_asked, shown_item
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import BodySlots, decoded
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.large_reading import INLINE_ITEMS_BYTES_MAX
from penstock.intake.request_reader import RequestReader
from penstock.intake.rewriting import check_items
from penstock.intake.storage_policy import StoragePolicy
from penstock.records.account import AccountId
from penstock.sessions import ConversationBook, StoredConversation
from penstock.sessions.conversation_book import not_found
from penstock.sessions.conversation_ids import (
    ConversationId,
    is_item_id,
    read_conversation_id,
    shown_conversation,
)
from penstock.wire.apis.server_calls import callers_items
from penstock.wire.apis.stored_state import no_state
from penstock.wire.resources.conversations import (
    AddItems,
    ConversationDeleted,
    ConversationObject,
    CreateConversation,
    Metadata,
    UpdateConversation,
)

_METADATA_PAIRS_MAX: Final = 16
_METADATA_NAME_MAX: Final = 64
_METADATA_VALUE_MAX: Final = 512
_AT_ONCE_MAX: Final = 8
_AT_ONCE_PER_ACCOUNT_MAX: Final = 2
T = TypeVar("T")


class ConversationPages:
    """Creates, shows and changes conversations of the key's account, and their items."""

    def __init__(
        self,
        reader: RequestReader,
        book: ConversationBook,
        policy: StoragePolicy,
        media_hosts: frozenset[str],
    ) -> None:
        self._reader = reader
        self._book = book
        self._policy = policy
        self._media_hosts = media_hosts
        # Items may be as large as an input.
        self._slots = BodySlots("conversations", _AT_ONCE_MAX, _AT_ONCE_PER_ACCOUNT_MAX)

    def routes(self, base: str) -> list[Route]:
        """Return the routes under `base`, which is `/v1` or an account's `/ai/v1`."""
        every, one = f"{base}/conversations", f"{base}/conversations/{{id}}"
        return [
            Route(every, self.create, methods=["POST"]),
            Route(one, self.show),
            Route(one, self.update, methods=["POST"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/items", self.list_items),
            Route(f"{one}/items", self.add_items, methods=["POST"]),
            Route(f"{one}/items/{{item_id}}", self.show_item),
            Route(f"{one}/items/{{item_id}}", self.delete_item, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        account = await self._account(request, writes=True)
        async with self._body(request, CreateConversation) as asked:
            metadata, items = _metadata(asked.metadata), asked.items or []
            return json_response(_shown(await self._book.create(account, metadata, items)))

    async def show(self, request: Request) -> Response:
        account, id = await self._asked(request)
        return json_response(_shown(await self._book.find(account, id)))

    async def update(self, request: Request) -> Response:
        account, id = await self._asked(request, writes=True)
        async with self._body(request, UpdateConversation) as asked:
            metadata = _metadata(asked.metadata)
        return json_response(_shown(await self._book.set_metadata(account, id, metadata)))

    async def delete(self, request: Request) -> Response:
        account, id = await self._asked(request)
        if not await self._book.delete(account, id):
            raise not_found()
        return json_response(ConversationDeleted(shown_conversation(id)))

    async def list_items(self, request: Request) -> Response:
        account, id = await self._asked(request)
        asked = page_asked(request.query_params)
        if asked.after is not None and not is_item_id(asked.after):
            raise InvalidRequest("`after` names no item of this list.", param="after")
        items, has_more = await self._book.page(
            account, id, asked.limit, asked.after, is_oldest_first=asked.is_oldest_first
        )
        return json_response(item_list(items, has_more=has_more))

    async def add_items(self, request: Request) -> Response:
        account, id = await self._asked(request, writes=True)
        is_repeated = bool(CallerHeaders(request.scope["headers"]).client_retry())
        async with self._body(request, AddItems) as asked:
            added = await self._book.add_items(account, id, asked.items, is_repeated=is_repeated)
        return json_response(item_list(added, has_more=False))

    async def show_item(self, request: Request) -> Response:
        account, id = await self._asked(request)
        item = await self._book.item(account, id, _item_id(request))
        return json_response(shown_item(item))

    async def delete_item(self, request: Request) -> Response:
        account, id = await self._asked(request)
        found = await self._book.delete_item(account, id, _item_id(request))
        return json_response(_shown(found))

    async def _account(self, request: Request, *, writes: bool) -> AccountId:
        account = await account_of(self._reader, request)
        if writes and not self._policy.may_store(account):
            raise no_state("conversation")
        return account.id

    async def _asked(
        self, request: Request, *, writes: bool = False
    ) -> tuple[AccountId, ConversationId]:
        """Return whose conversation is asked for; an id that cannot be ours is unknown alike."""
        account = await self._account(request, writes=writes)
        id = read_conversation_id(request.path_params["id"])
        if id is None:
            raise not_found()
        return account, id

    @asynccontextmanager
    async def _body(self, request: Request, kind: type[T]) -> AsyncIterator[T]:
        """Read a body, and hold its slot; refuse items that no request could be served with."""
        key = await key_of(self._reader, request)
        assert key.account is not None, "checked with the key"
        secret = self._reader.salt_of(key.account.id)
        async with self._slots.held(key):
            body = await self._slots.gather(request)
            # A large one in the thread that reads large requests.
            yield await self._reader.read_by_size(
                len(body),
                lambda _: self._read(body or b"{}", kind, secret),
                INLINE_ITEMS_BYTES_MAX,
            )

    def _read(self, body: bytes, kind: type[T], secret: str) -> T:
        asked = decoded(body, kind)
        if isinstance(asked, AddItems | CreateConversation) and asked.items:
            asked.items = callers_items(asked.items)
            check_items(asked.items, self._media_hosts, secret)
        return asked


def _item_id(request: Request) -> str:
    id: str = request.path_params["item_id"]
    if not is_item_id(id):
        raise NotFound("There is no such item.")
    return id


def _metadata(given: Metadata | None) -> Metadata:
    metadata = given or {}
    is_fitting = len(metadata) <= _METADATA_PAIRS_MAX and all(
        len(name) <= _METADATA_NAME_MAX and len(value) <= _METADATA_VALUE_MAX
        for name, value in metadata.items()
    )
    if not is_fitting or "\0" in "".join((*metadata, *metadata.values())):
        raise InvalidRequest(
            f"`metadata` has at most {_METADATA_PAIRS_MAX} names of {_METADATA_NAME_MAX}"
            f" characters and values of {_METADATA_VALUE_MAX}, none of them NUL.",
            param="metadata",
        )
    return metadata


def _shown(conversation: StoredConversation) -> ConversationObject:
    return ConversationObject(
        id=shown_conversation(conversation.id),
        created_at=int(conversation.created_at),
        metadata=conversation.metadata,
    )
