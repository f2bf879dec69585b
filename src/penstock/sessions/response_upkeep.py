"""What operators and control do with stored responses: list, delete when old, forget an account.

An operator sees facts about responses, never their content.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.records.account import AccountId
from penstock.sessions.response_book import SQL, delete_response
from penstock.sessions.response_ids import ResponseId, day_of
from penstock.sessions.settings import ResponsesSettings
from penstock.store import KeptValues, Store
from penstock.store.pool import Row

_AT_ONCE: Final = 500
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"


class ResponseFacts(msgspec.Struct, frozen=True):
    """A stored response without its content."""

    id: ResponseId
    account: AccountId
    key: str
    model: str
    previous: ResponseId | None
    status: str
    created_at: float
    bytes: int


class ResponseUpkeep:
    """Lists, deletes and forgets responses of all accounts."""

    def __init__(
        self, store: Store, values: KeptValues, settings: ResponsesSettings, clock: Clock
    ) -> None:
        self._store = store
        self._values = values
        self._kept_seconds = settings.kept_seconds
        self._now = clock.now

    async def page(
        self, account: AccountId | None, after: ResponseId | None, limit: int
    ) -> list[ResponseFacts]:
        """Return responses, newest first; with `account` None, those of all accounts."""
        day = None if after is None else day_of(after)
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["page"], (account, account, after, day, after, limit))
        return [_facts(row) for row in rows]

    async def describe(self, id: ResponseId) -> ResponseFacts | None:
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["describe"], (day_of(id), id))
        return None if row is None else _facts(row)

    async def delete(self, response: ResponseFacts) -> None:
        """Delete a response and its objects; nothing happens if it is gone already."""
        await delete_response(self._store, self._values, response.account, response.id)

    async def drop_old(self) -> int:
        """Delete days that are too old, their objects first; return how many days."""
        now = datetime.fromtimestamp(self._now(), UTC)
        before = (now - timedelta(seconds=self._kept_seconds)).date()
        await self._delete_objects(before)
        async with self._store.transaction() as tx:
            # A backup may hold the table: then all would wait behind this. Later is soon enough.
            await tx.execute("set local lock_timeout = '500ms'")
            row = await tx.fetch_one(SQL["drop_days"], (before,))
        assert row is not None, "a count is one row"
        return int(row[0])

    async def forget(self, account: AccountId) -> int:
        """Delete all responses of an account, their objects first; return how many."""
        count = 0
        while True:
            async with self._store.statement() as statement:
                rows = await statement.fetch(SQL["of_account"], (account, _AT_ONCE))
            if not rows:
                break
            await self._values.delete([name for row in rows for name in row[1:] if name])
            async with self._store.transaction() as tx:
                count += await tx.execute(
                    SQL["delete_of_account"], (account, [row[0] for row in rows])
                )
        async with self._store.transaction() as tx:
            await tx.execute(SQL["forget_bytes"], (account,))
        return count

    async def _delete_objects(self, before: date) -> None:
        day, id = date.min, _FIRST_ID
        while True:
            async with self._store.statement() as statement:
                rows = await statement.fetch(SQL["objects_before"], (before, day, id, _AT_ONCE))
            if not rows:
                return
            await self._values.delete([name for row in rows for name in row[2:] if name])
            day, id = rows[-1][:2]


def _facts(row: Row) -> ResponseFacts:
    return ResponseFacts(*row)
