"""Keeps conversations and their items; every statement names the account, or a row found by it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

import msgspec

from penstock.clock import Clock, new_id, timestamp_of
from penstock.errors import InvalidRequest, NotFound, QuotaSpent
from penstock.records.account import AccountId
from penstock.sessions.conversation_ids import ConversationId, with_added_ids
from penstock.sessions.settings import ConversationsSettings
from penstock.store import KeptValue, KeptValues, Store, Transaction, read_queries
from penstock.store.pool import Row
from penstock.wire.apis.response_items import Item

SQL: Final = read_queries("penstock.sessions", "conversations.sql")
# A client that lost an answer asks again within this time.
_REPEATED_SECONDS: Final = 60.0
# What a conversation counts for besides its items and metadata.
_ROW_BYTES: Final = 512
_PAGE_BYTES: Final = 8 * 2**20
_QUOTA_SECONDS: Final = 10.0
_QUOTAS_MAX: Final = 10_000


class StoredConversation(msgspec.Struct, frozen=True):
    """A conversation without its items."""

    id: ConversationId
    metadata: dict[str, str]
    created_at: float
    items: int = 0
    bytes: int = 0


class NewItems(msgspec.Struct, frozen=True):
    """Items that are encrypted, and uploaded if they are large, but in no row yet."""

    account: AccountId
    items: Sequence[Item]
    kept: Sequence[KeptValue]
    sizes: Sequence[int]


class ConversationBook:
    """Creates, reads and changes conversations."""

    def __init__(
        self, store: Store, values: KeptValues, settings: ConversationsSettings, clock: Clock
    ) -> None:
        self._store = store
        self._values = values
        self._settings = settings
        self._now = clock.now
        # When each account was asked about last, how many it has and how large they are.
        self._kept: dict[AccountId, tuple[float, int, int]] = {}

    async def create(
        self, account: AccountId, metadata: Mapping[str, str], items: Sequence[Item]
    ) -> StoredConversation:
        """Make a conversation with its first items."""
        id = ConversationId(new_id())
        self._check_count(items)
        await self._check_quota(account)
        new = await self.prepare(account, id, with_added_ids(items))
        created_at, size = timestamp_of(id), _ROW_BYTES + len(_json(metadata))
        async with self._store.transaction() as tx:
            at = datetime.fromtimestamp(created_at, UTC)
            await tx.execute(SQL["create"], (id, account, _json(metadata), at, size))
            await self.insert(tx, id, 0, [new])
        return StoredConversation(id, dict(metadata), created_at)

    async def find(self, account: AccountId, id: ConversationId) -> StoredConversation:
        """Return a conversation; NotFound alike if it never was, is deleted, idle or another's."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["find"], (id, account, self._settings.idle_seconds))
            if row is None:
                raise not_found()
            await statement.execute(SQL["use"], (id,))
        return StoredConversation(id, msgspec.json.decode(row[1]), *row[2:])

    async def set_metadata(
        self, account: AccountId, id: ConversationId, metadata: Mapping[str, str]
    ) -> StoredConversation:
        """Replace the metadata."""
        found = await self.find(account, id)
        async with self._store.statement() as statement:
            await statement.execute(SQL["set_metadata"], (_json(metadata), id, account))
        return msgspec.structs.replace(found, metadata=dict(metadata))

    async def delete(self, account: AccountId, id: ConversationId) -> bool:
        """Delete a conversation and its items; return whether there was one.

        First its objects: if these cannot be deleted now, rows still name them.
        """
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["objects_of"], (id, account))
        await self._values.delete([row[0] for row in rows])
        async with self._store.transaction() as tx:
            # What was added meanwhile goes with the rows.
            rows = await tx.fetch(SQL["objects_of"], (id, account))
            deleted = await tx.execute(SQL["delete"], (id, account))
        await self._values.delete([row[0] for row in rows])
        return bool(deleted)

    async def add_items(
        self,
        account: AccountId,
        id: ConversationId,
        items: Sequence[Item],
        *,
        is_repeated: bool,
    ) -> list[Item]:
        """Add items. The second try of a call whose answer got lost gets it, and adds nothing."""
        self._check_count(items)
        # Before anything is uploaded.
        await self.check_room(account, id, len(items))
        call = await self._values.digest(account, msgspec.json.encode(items))
        new = await self.prepare(account, id, with_added_ids(items))
        try:
            rows, is_added = await self._add(new, id, call, is_repeated=is_repeated)
        except NotFound:
            await self.discard([new])
            raise
        if not is_added:
            await self.discard([new])
        return [await self._item(account, id, row) for row in rows]

    async def _add(
        self, new: NewItems, id: ConversationId, call: str, *, is_repeated: bool
    ) -> tuple[list[Row], bool]:
        async with self._store.transaction() as tx:
            row = await tx.fetch_one(SQL["lock"], (_REPEATED_SECONDS, id, new.account))
            if row is None:
                raise not_found()
            position, last_call, last_items, is_recent = row
            if is_repeated and is_recent and last_call == call:
                return await tx.fetch(SQL["items_named"], (id, last_items)), False
            await self.insert(tx, id, position, [new])
            ids = [item["id"] for item in new.items]
            await tx.execute(SQL["note_call"], (call, ids, id))
            return await tx.fetch(SQL["items_named"], (id, ids)), True

    async def check_room(self, account: AccountId, id: ConversationId, more: int = 1) -> None:
        """Refuse to add to a conversation that is full, or of an account that keeps enough."""
        found = await self.find(account, id)
        if found.items + more > self._settings.items_max:
            raise InvalidRequest(
                f"A conversation has at most {self._settings.items_max} items.",
                param="conversation",
            )
        await self._check_quota(account)

    async def discard(self, groups: Sequence[NewItems]) -> None:
        """Delete what was uploaded for items of which no row was written."""
        await self._values.delete([kept.name for new in groups for kept in new.kept if kept.name])

    async def page(
        self,
        account: AccountId,
        id: ConversationId,
        limit: int,
        after: str | None,
        *,
        is_oldest_first: bool,
    ) -> tuple[list[Item], bool]:
        """Return some items in order, after the item `after`, and whether there are more.

        Fewer than asked for if they are large.
        """
        await self.find(account, id)
        query = SQL["page" if is_oldest_first else "page_newest_first"]
        async with self._store.statement() as statement:
            listed = await statement.fetch(query, (id, after, id, after, limit + 1))
        ids: list[str] = []
        size = 0
        for item, item_bytes in listed[:limit]:
            size += item_bytes
            if ids and size > _PAGE_BYTES:
                break
            ids.append(item)
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["items_named"], (id, ids))
        if not is_oldest_first:
            rows.reverse()
        return [await self._item(account, id, row) for row in rows], len(listed) > len(ids)

    async def item(self, account: AccountId, id: ConversationId, item: str) -> Item:
        """Return one item."""
        await self.find(account, id)
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["items_named"], (id, [item]))
        if not rows:
            raise NotFound("There is no such item.")
        return await self._item(account, id, rows[0])

    async def delete_item(
        self, account: AccountId, id: ConversationId, item: str
    ) -> StoredConversation:
        """Delete one item; return the conversation."""
        found = await self.find(account, id)
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["delete_item"], (id, item))
        if row is None:
            raise NotFound("There is no such item.")
        await self._values.delete([name for name in row if name])
        return found

    async def groups(
        self, account: AccountId, id: ConversationId, bytes_max: int
    ) -> tuple[list[list[Item]], int]:
        """Return all items, those together that were added together, and their size."""
        found = await self.find(account, id)
        if found.bytes > bytes_max:
            raise InvalidRequest(
                f"The conversation is larger than {bytes_max} bytes: compact it.",
                param="conversation",
            )
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["items"], (id,))
        groups = [
            [await self._item(account, id, row[1:4]) for row in group]
            for _, group in groupby(rows, key=lambda row: row[0])
        ]
        return groups, found.bytes

    async def prepare(
        self, account: AccountId, id: ConversationId, items: Sequence[Item]
    ) -> NewItems:
        """Encrypt items, and upload large ones."""
        encoded = [msgspec.json.encode(item) for item in items]
        kept = await self._values.keep(
            [
                (account, _owner(id, item["id"]), value)
                for item, value in zip(items, encoded, strict=True)
            ]
        )
        await self._values.put(kept)
        return NewItems(account, items, kept, [len(value) for value in encoded])

    async def insert(
        self, tx: Transaction, id: ConversationId, position: int, groups: Sequence[NewItems]
    ) -> None:
        """Write items from `position` on, in a transaction that has locked the conversation."""
        count = sum(len(group.items) for group in groups)
        columns: list[tuple[int, int, str, bytes, str, int]] = []
        for group in groups:
            first = position + len(columns)
            columns += [
                (position + len(columns) + at, first, item["id"], kept.inline, kept.name, size)
                for at, (item, kept, size) in enumerate(
                    zip(group.items, group.kept, group.sizes, strict=True)
                )
            ]
        if not columns:
            return
        rows = await tx.fetch(SQL["insert_items"], (id, *map(list, zip(*columns, strict=True))))
        await tx.execute(SQL["added"], (count, len(rows), sum(row[0] for row in rows), id))

    def _check_count(self, items: Sequence[Item]) -> None:
        if len(items) > self._settings.items_per_call_max:
            raise InvalidRequest(
                f"A call adds at most {self._settings.items_per_call_max} items.", param="items"
            )

    async def _check_quota(self, account: AccountId) -> None:
        """Refuse to keep more for an account at its quota; the sum is read every 10 seconds."""
        known = self._kept.get(account)
        if known is None or known[0] + _QUOTA_SECONDS <= self._now():
            async with self._store.statement() as statement:
                row = await statement.fetch_one(SQL["kept"], (account,))
            assert row is not None, "sums are one row"
            known = (self._now(), row[0], row[1])
            if len(self._kept) >= _QUOTAS_MAX:
                self._kept.clear()
            self._kept[account] = known
        _, count, size = known
        settings = self._settings
        if count >= settings.per_account_max or size >= settings.bytes_per_account_max:
            raise QuotaSpent("The account keeps as much in conversations as it may: delete some.")

    async def _item(self, account: AccountId, id: ConversationId, row: Row) -> Item:
        value = await self._values.get(account, _owner(id, row[0]), row[2], bytes(row[1]))
        item: Item = msgspec.json.decode(value)
        return item


def not_found() -> NotFound:
    """Return the one answer for a conversation that is not there, or is another account's."""
    return NotFound("There is no such conversation.", param="conversation")


def _owner(id: ConversationId, item: str) -> str:
    return f"{id}-{item}"


def _json(metadata: Mapping[str, str]) -> str:
    return msgspec.json.encode(metadata).decode()
