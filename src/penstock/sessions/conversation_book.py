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


class StoredConversation(msgspec.Struct, frozen=True):
    """A conversation without its items."""

    id: ConversationId
    metadata: dict[str, str]
    created_at: float


class NewItems(msgspec.Struct, frozen=True):
    """Items that are encrypted, and uploaded if they are large, but in no row yet."""

    account: AccountId
    items: Sequence[Item]
    kept: Sequence[KeptValue]
    sizes: Sequence[int]


class ConversationBook:
    """Creates, reads and changes conversations. Stateless."""

    def __init__(
        self, store: Store, values: KeptValues, settings: ConversationsSettings, clock: Clock
    ) -> None:
        self._store = store
        self._values = values
        self._settings = settings
        self._now = clock.now

    async def create(
        self, account: AccountId, metadata: Mapping[str, str], items: Sequence[Item]
    ) -> StoredConversation:
        """Make a conversation with its first items."""
        id = ConversationId(new_id())
        new = await self.prepare(account, id, with_added_ids(self._checked(items)))
        created_at = timestamp_of(id)
        async with self._store.transaction() as tx:
            await self._check_quota(tx, account)
            at = datetime.fromtimestamp(created_at, UTC)
            await tx.execute(SQL["create"], (id, account, _json(metadata), at))
            await self.insert(tx, id, 0, [new])
        return StoredConversation(id, dict(metadata), created_at)

    async def find(self, account: AccountId, id: ConversationId) -> StoredConversation:
        """Return a conversation; NotFound alike if it never was, is deleted, idle or another's."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["find"], (id, account, self._settings.idle_seconds))
            if row is None:
                raise not_found()
            await statement.execute(SQL["use"], (id,))
        return StoredConversation(id, msgspec.json.decode(row[1]), row[2])

    async def set_metadata(
        self, account: AccountId, id: ConversationId, metadata: Mapping[str, str]
    ) -> StoredConversation:
        """Replace the metadata."""
        found = await self.find(account, id)
        async with self._store.statement() as statement:
            await statement.execute(SQL["set_metadata"], (_json(metadata), id, account))
        return msgspec.structs.replace(found, metadata=dict(metadata))

    async def delete(self, account: AccountId, id: ConversationId) -> bool:
        """Delete a conversation and its items; return whether there was one."""
        async with self._store.transaction() as tx:
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
        call = await self._values.digest(account, msgspec.json.encode(items))
        new = await self.prepare(account, id, with_added_ids(self._checked(items)))
        async with self._store.transaction() as tx:
            count, position, last_call, last_items, is_recent = await self._lock(tx, account, id)
            if is_repeated and is_recent and last_call == call:
                rows = await tx.fetch(SQL["items_named"], (id, last_items))
            else:
                if count + len(items) > self._settings.items_max:
                    raise InvalidRequest(
                        f"A conversation has at most {self._settings.items_max} items."
                    )
                await self._check_quota(tx, account)
                await self.insert(tx, id, position, [new])
                ids = [item["id"] for item in new.items]
                await tx.execute(SQL["note_call"], (call, ids, id))
                rows = await tx.fetch(SQL["items_named"], (id, ids))
        return [await self._item(account, id, row) for row in rows]

    async def page(
        self,
        account: AccountId,
        id: ConversationId,
        limit: int,
        after: str | None,
        *,
        is_oldest_first: bool,
    ) -> list[Item]:
        """Return some items, in order, that come after the item `after`."""
        await self.find(account, id)
        query = SQL["page" if is_oldest_first else "page_newest_first"]
        async with self._store.statement() as statement:
            rows = await statement.fetch(query, (id, after, id, after, limit))
        return [await self._item(account, id, row) for row in rows]

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
        await self.find(account, id)
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["items"], (id,))
        size = sum(row[4] for row in rows)
        if size > bytes_max:
            raise InvalidRequest(
                f"The conversation is larger than {bytes_max} bytes: compact it.",
                param="conversation",
            )
        groups = [
            [await self._item(account, id, row[1:4]) for row in group]
            for _, group in groupby(rows, key=lambda row: row[0])
        ]
        return groups, size

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

    def _checked(self, items: Sequence[Item]) -> Sequence[Item]:
        if len(items) > self._settings.items_per_call_max:
            raise InvalidRequest(
                f"A call adds at most {self._settings.items_per_call_max} items.", param="items"
            )
        return items

    async def _lock(self, tx: Transaction, account: AccountId, id: ConversationId) -> Row:
        row = await tx.fetch_one(SQL["lock"], (_REPEATED_SECONDS, id, account))
        if row is None:
            raise not_found()
        return row

    async def _check_quota(self, tx: Transaction, account: AccountId) -> None:
        row = await tx.fetch_one(SQL["kept_bytes"], (account,))
        assert row is not None, "a sum is one row"
        if row[0] >= self._settings.bytes_per_account_max:
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
