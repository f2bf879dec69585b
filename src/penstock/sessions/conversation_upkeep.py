"""Deletes conversations that nobody uses, and those of an account that is forgotten."""

from typing import Final

from penstock.records.account import AccountId
from penstock.sessions.conversation_book import SQL, ConversationBook
from penstock.sessions.settings import ConversationsSettings
from penstock.store import Store
from penstock.store.pool import Row

_AT_ONCE: Final = 100


class ConversationUpkeep:
    """Deletes conversations of all accounts, for control and operators."""

    def __init__(
        self, store: Store, book: ConversationBook, settings: ConversationsSettings
    ) -> None:
        self._store = store
        self._book = book
        self._idle_seconds = settings.idle_seconds

    async def drop_idle(self) -> int:
        """Delete some conversations that are idle; return how many."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["idle"], (self._idle_seconds, _AT_ONCE))
        return await self._delete(rows)

    async def forget(self, account: AccountId) -> None:
        """Delete all conversations of an account."""
        while True:
            async with self._store.statement() as statement:
                rows = await statement.fetch(SQL["of_account"], (account, _AT_ONCE))
            if not await self._delete(rows):
                return

    async def _delete(self, rows: list[Row]) -> int:
        for id, account in rows:
            await self._book.delete(account, id)
        return len(rows)
