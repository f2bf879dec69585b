"""Stores, finds, chains and deletes responses: a row for each, large parts in object storage."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

import msgspec

from penstock.clock import Clock, timestamp_of
from penstock.errors import InvalidRequest, NotFound, QuotaSpent, ResponseNotFound
from penstock.records.account import AccountId, KeyId
from penstock.sessions.conversation_ids import ConversationId
from penstock.sessions.response_ids import ResponseId, day_of
from penstock.sessions.settings import ResponsesSettings
from penstock.sessions.tenure import Tenure
from penstock.store import (
    KeptValue,
    KeptValues,
    RecentValues,
    Store,
    Transaction,
    read_queries,
)
from penstock.store.pool import Row
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_object import Response

SQL: Final = read_queries("penstock.sessions", "responses.sql")
# What a later request may go on from.
CONTINUED: Final = frozenset({"completed", "incomplete"})
# A background response whose job has not ended, and one whose gateway runs tools for it.
QUEUED: Final = "queued"
IN_PROGRESS: Final = "in_progress"
# What a response has only when it has ended.
_ADDED_AT_END: Final = (
    "status", "output", "usage", "completed_at", "incomplete_details", "error",
)  # fmt: skip
# How long an account's total is believed, and of how many accounts.
_QUOTA_SECONDS: Final = 10.0
_QUOTAS_MAX: Final = 10_000
_SLOTS: Final = 16


class NewResponse(msgspec.Struct, frozen=True):
    """A response to be stored, with the items that its request sent: ended, or to be ended."""

    id: ResponseId
    account: AccountId
    key: KeyId
    model: str
    response: Response
    input: Sequence[Item]
    root: ResponseId
    previous: ResponseId | None = None
    depth: int = 0
    # It runs as the job with its id, which ends it later.
    is_background: bool = False
    tenure: Tenure | None = None


class PreparedResponse(msgspec.Struct, frozen=True):
    """A response that can be written into its row."""

    new: NewResponse
    input: KeptValue
    response: KeptValue
    bytes: int


class StoredResponse(msgspec.Struct, frozen=True):
    """A response as it was kept. `response` is what clients get."""

    id: ResponseId
    root: ResponseId
    depth: int
    status: str
    created_at: float
    response: Response
    input: list[Item]
    bytes: int = 0
    is_background: bool = False
    tenure: Tenure | None = None

    @property
    def has_ended(self) -> bool:
        return self.status not in (QUEUED, IN_PROGRESS)


class ResponseEnding(msgspec.Struct, frozen=True):
    """What its end adds to a response that was written before, encrypted."""

    id: ResponseId
    status: str
    kept: KeptValue
    bytes: int


class ResponseBook:
    """One per process. Every statement names the account."""

    def __init__(
        self, store: Store, values: KeptValues, settings: ResponsesSettings, clock: Clock
    ) -> None:
        self._store = store
        self._values = values
        self._recent = RecentValues(values, settings.cache_bytes_max)
        self._settings = settings
        self._now = clock.now
        self._days: set[date] = set()
        # When each account was asked about last, and what it kept then.
        self._kept_bytes: OrderedDict[AccountId, tuple[float, int]] = OrderedDict()

    @property
    def context_bytes_max(self) -> int:
        return self._settings.context_bytes_max

    @property
    def chain_max(self) -> int:
        return self._settings.chain_max

    async def stores_by_default(self) -> bool:
        """Return whether a request that does not say `store` is stored in this cell."""
        if self._settings.store_default != "cell":
            return self._settings.store_default
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["default"])
        return row is not None and bool(row[0])

    async def add(self, new: NewResponse) -> None:
        """Store a response; doing it twice equals doing it once."""
        prepared = await self.prepare(new)
        async with self._store.statement() as statement:
            await self.insert(statement, prepared)

    async def prepare(self, new: NewResponse) -> PreparedResponse:
        """Encrypt a response, and upload what is large of it; nothing names that yet."""
        input, response = msgspec.json.encode(new.input), msgspec.json.encode(new.response)
        account, id = new.account, new.id
        kept = await self._values.keep(
            [(account, _input_of(id), input), (account, _response_of(id), response)]
        )
        await self._values.put(kept)
        await self._make_day(day_of(id))
        return PreparedResponse(new, kept[0], kept[1], len(input) + len(response))

    async def insert(self, tx: Transaction, prepared: PreparedResponse) -> None:
        """Write the row of a response, in the caller's transaction."""
        new, input, response = prepared.new, prepared.input, prepared.response
        created_at = datetime.fromtimestamp(timestamp_of(new.id), UTC)
        await tx.execute(
            SQL["add"],
            (
                *(day_of(new.id), new.id, new.account, new.key, new.model),
                *(new.previous, new.root, new.depth, new.response["status"], created_at),
                *(input.inline, input.name, response.inline, response.name, prepared.bytes),
                *(new.is_background, *_columns(new.tenure), _slot_of(new.id)),
            ),
        )

    async def prepare_end(
        self, account: AccountId, id: ResponseId, response: Response
    ) -> ResponseEnding:
        """Encrypt what the end of a response adds to it, and upload it if it is large."""
        added = msgspec.json.encode({name: response[name] for name in _ADDED_AT_END})
        (kept,) = await self._values.keep([(account, _ending_of(id), added)])
        await self._values.put([kept])
        return ResponseEnding(id, response["status"], kept, len(added))

    async def end(self, tx: Transaction, ending: ResponseEnding) -> bool:
        """Write the end of a response; return False if it had ended already."""
        id, kept, size = ending.id, ending.kept, ending.bytes
        ended = await tx.execute(
            SQL["end"],
            (ending.status, kept.inline, kept.name, size, day_of(id), id, _slot_of(id), size),
        )
        return bool(ended)

    async def stop(
        self, tx: Transaction, id: ResponseId, status: str, error: dict[str, str] | None
    ) -> tuple[bool, Tenure | None]:
        """End a background response without an answer; False if it had ended already."""
        told = None if error is None else msgspec.json.encode(error).decode()
        row = await tx.fetch_one(SQL["stop"], (status, told, day_of(id), id))
        return row is not None, None if row is None else _tenure(row)

    async def statuses(self, ids: Sequence[ResponseId]) -> dict[ResponseId, str]:
        """Return the status of those of these responses that are there."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["statuses"], ([day_of(id) for id in ids], list(ids)))
        return {ResponseId(id): status for id, status in rows}

    async def left_over(self, seconds: float, limit: int) -> list[tuple[ResponseId, AccountId]]:
        """Return background responses that are so old and whose jobs have ended without them."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["left_over"], (seconds, limit))
        return [(ResponseId(id), AccountId(account)) for id, account in rows]

    async def check_quota(self, account: AccountId, *, is_asked: bool) -> None:
        """Refuse to keep more for an account that has reached its quota.

        With `is_asked` Postgres is asked in any case: StoreUnavailable is known before work begins.
        """
        known = self._kept_bytes.get(account)
        if known is None or is_asked or known[0] + _QUOTA_SECONDS <= self._now():
            async with self._store.statement() as statement:
                row = await statement.fetch_one(SQL["kept_bytes"], (account,))
            assert row is not None, "a sum is one row"
            known = self._kept_bytes[account] = (self._now(), row[0])
            self._kept_bytes.move_to_end(account)
            if len(self._kept_bytes) > _QUOTAS_MAX:
                self._kept_bytes.popitem(last=False)
        if known[1] >= self._settings.bytes_per_account_max:
            raise QuotaSpent(
                "The account keeps as much as it may: delete responses, or send `store: false`.",
                param="store",
            )

    async def discard(self, prepared: PreparedResponse) -> None:
        """Delete what was uploaded for a response whose row was not written."""
        names = (prepared.input.name, prepared.response.name)
        await self._values.delete([name for name in names if name])

    async def discard_end(self, account: AccountId, ending: ResponseEnding) -> None:
        """Delete what was uploaded for an end, unless an earlier try has stored the same."""
        name = ending.kept.name
        if not name:
            return
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["objects"], (day_of(ending.id), ending.id, account))
        if row is None or name not in row:
            await self._values.delete([name])

    async def find(
        self, account: AccountId, id: ResponseId, *, at_any_age: bool = False
    ) -> StoredResponse:
        """Return a response; NotFound alike if it never was, is deleted, old or another's."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["find"], (day_of(id), id, account))
        if row is None or (self._is_old(row) and not at_any_age):
            raise NotFound("There is no such response.")
        return await self._read(account, row)

    async def sizes(self, account: AccountId, ids: Sequence[ResponseId]) -> dict[ResponseId, int]:
        """Return how large those of these responses are that are there."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(
                SQL["sizes"], ([day_of(id) for id in ids], list(ids), account)
            )
        return {ResponseId(id): size for id, size in rows}

    async def find_many(
        self, account: AccountId, ids: Sequence[ResponseId]
    ) -> dict[ResponseId, StoredResponse]:
        """Return those of these responses that are there."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(
                SQL["find_many"], ([day_of(id) for id in ids], list(ids), account)
            )
        found = [await self._read(account, row) for row in rows if not self._is_old(row)]
        return {each.id: each for each in found}

    async def chain(self, account: AccountId, id: ResponseId) -> list[StoredResponse]:
        """Return a response and all before it, oldest first; refuse a chain that has a gap."""
        settings = self._settings
        async with self._store.statement() as statement:
            rows = await statement.fetch(
                SQL["chain"],
                (
                    *(day_of(id), id, account, account),
                    *(settings.context_bytes_max, settings.chain_max + 1),
                ),
                binary=True,
            )
        param = "previous_response_id"
        if len(rows) > settings.chain_max:
            raise InvalidRequest(
                f"The chain has more than {settings.chain_max} responses: compact it.", param=param
            )
        if sum(row[10] for row in rows) > settings.context_bytes_max:
            raise InvalidRequest(
                f"The chain is larger than {settings.context_bytes_max} bytes: compact it.",
                param=param,
            )
        # The first of a chain has none before it.
        if not rows or rows[0][1] is not None or any(map(self._is_old, rows)):
            raise ResponseNotFound(param=param)
        status = rows[-1][4]
        if status not in CONTINUED:
            raise InvalidRequest(
                f"That response is {status}: only a completed or incomplete one can be continued.",
                param=param,
            )
        return [await self._read(account, row) for row in rows]

    async def delete(self, account: AccountId, id: ResponseId) -> None:
        """Delete a response; NotFound if there is none to be deleted."""
        if not await delete_response(self._store, self._values, account, id):
            raise NotFound("There is no such response.")

    async def _read(self, account: AccountId, row: Row) -> StoredResponse:
        id = ResponseId(row[0])
        input = await self._recent.get(account, _input_of(id), row[7], bytes(row[6]))
        response = await self._recent.get(account, _response_of(id), row[9], bytes(row[8]))
        whole: Response = msgspec.json.decode(response)
        if row[11] or row[4] == IN_PROGRESS or row[12] or row[13] or row[14]:
            # Written before it ended.
            whole["status"], whole["error"] = row[4], row[14]
            ending = await self._recent.get(account, _ending_of(id), row[13], bytes(row[12]))
            whole.update(msgspec.json.decode(ending) if ending else {})
        return StoredResponse(
            id=id,
            root=ResponseId(row[2]),
            depth=row[3],
            status=row[4],
            created_at=row[5],
            response=whole,
            input=msgspec.json.decode(input),
            bytes=row[10],
            is_background=row[11],
            tenure=_tenure(row[15:]),
        )

    def _is_old(self, row: Row) -> bool:
        created_at: float = row[5]
        return created_at + self._settings.kept_seconds <= self._now()

    async def _make_day(self, day: date) -> None:
        """Make the partition of a day; in a transaction of its own, so that its lock is short."""
        if day in self._days:
            return
        async with self._store.transaction() as tx:
            await tx.execute(SQL["make_day"], (day,))
        self._days.add(day)


async def delete_response(
    store: Store, values: KeptValues, account: AccountId, id: ResponseId
) -> bool:
    """Delete a response; return whether there was one.

    First its objects: if these cannot be deleted now, its row still names them.
    """
    where = (day_of(id), id, account)
    async with store.statement() as statement:
        row = await statement.fetch_one(SQL["objects"], where)
    if row is None:
        return False
    await values.delete([name for name in row if name])
    async with store.statement() as statement:
        await statement.execute(SQL["delete"], (*where, _slot_of(id)))
    return True


def _input_of(id: ResponseId) -> str:
    return f"{id}-input"


def _response_of(id: ResponseId) -> str:
    return f"{id}-response"


def _ending_of(id: ResponseId) -> str:
    return f"{id}-ending"


def _columns(tenure: Tenure | None) -> tuple[str | None, int | None]:
    return (None, None) if tenure is None else (tenure.conversation, tenure.epoch)


def _tenure(columns: Row) -> Tenure | None:
    conversation, epoch = columns
    return None if conversation is None else Tenure(ConversationId(conversation), epoch)


def _slot_of(id: ResponseId) -> int:
    return int(id[-1], 16) % _SLOTS
