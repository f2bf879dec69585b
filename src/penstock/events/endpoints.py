"""Stores the accounts' receivers of events: their webhook endpoints and subscriptions.

Signing secrets are stored unhashed, because they sign; accounts see them only when they are made.
Every function except `find_enabled` reads one account's rows only.
"""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from penstock.clock import new_id
from penstock.errors import NotFound, OverLimit
from penstock.events.event import Shape
from penstock.events.settings import WebhookSettings
from penstock.events.signatures import new_secret
from penstock.outbound.addresses import Guard
from penstock.outbound.target import check_target
from penstock.records.account import AccountId
from penstock.store import Store, Transaction
from penstock.store.pool import Row

# Endpoints of one account, or of all accounts with new events; only one endpoint if an id is given.
_SELECT: Final = """
select id, account, shape, name, url, events, model, is_enabled, disabled_reason,
    extract(epoch from created_at)::float8, extract(epoch from modified_at)::float8,
    secret, case when old_secret_until > now() then old_secret end
from webhook_endpoints where account = any(%s) and (%s::uuid is null or id = %s)
order by id desc
"""
_INSERT: Final = """
insert into webhook_endpoints (id, account, shape, name, url, events, model, is_enabled, secret)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_CHANGE: Final = """
update webhook_endpoints set name = coalesce(%s, name), url = coalesce(%s, url),
    events = coalesce(%s, events), is_enabled = coalesce(%s, is_enabled),
    disabled_reason = case when %s then '' else disabled_reason end, modified_at = now()
where id = %s
"""
_ROTATE: Final = """
update webhook_endpoints set old_secret = secret, old_secret_until = now() + %s, secret = %s,
    modified_at = now()
where id = %s
"""
_PREFIX: Final = "we_"
_NONE: Final = "There is no such webhook endpoint or subscription in this account."


class Endpoint(msgspec.Struct, frozen=True):
    """One receiver. `secrets` sign its webhooks, the newest first."""

    id: str
    account: AccountId
    shape: Shape
    name: str
    url: str
    events: tuple[str, ...]
    model: str
    is_enabled: bool
    disabled_reason: str
    # In seconds since 1970.
    created_at: float
    modified_at: float
    secrets: tuple[bytes, ...]

    @property
    def public_id(self) -> str:
        """Subscriptions have a plain UUID, as Cloudflare's resources do."""
        if self.shape is Shape.WORKERS_AI:
            return self.id
        return _PREFIX + self.id.replace("-", "")


class NewEndpoint(msgspec.Struct, frozen=True):
    """An endpoint that an account wants to create."""

    account: AccountId
    shape: Shape
    name: str
    url: str
    events: tuple[str, ...]
    model: str = ""
    is_enabled: bool = True


class EndpointChange(msgspec.Struct, frozen=True):
    """The fields to change; None = left as it is. Enabling clears `disabled_reason`."""

    name: str | None = None
    url: str | None = None
    events: tuple[str, ...] | None = None
    is_enabled: bool | None = None


class EndpointBook:
    """Creates, lists, changes and deletes the endpoints of accounts."""

    def __init__(self, store: Store, settings: WebhookSettings) -> None:
        self._store = store
        self._settings = settings
        self._guard = Guard(settings.allowed_networks)

    async def create(self, wanted: NewEndpoint) -> Endpoint:
        """Create an endpoint; OverLimit if the account has too many, InvalidRequest for its URL."""
        check_target(wanted.url, self._guard)
        row_id = new_id()
        async with self._store.transaction() as transaction:
            await self._take_place(transaction, wanted.account)
            await transaction.execute(
                _INSERT,
                (
                    row_id,
                    wanted.account,
                    wanted.shape.value,
                    wanted.name,
                    wanted.url,
                    list(wanted.events),
                    wanted.model,
                    wanted.is_enabled,
                    new_secret(),
                ),
            )
            return await _find(transaction, wanted.account, wanted.shape, row_id)

    async def list(self, account: AccountId, shape: Shape) -> tuple[Endpoint, ...]:
        """Return all of one account, the newest first; `endpoints_max` bounds them."""
        async with self._store.transaction() as transaction:
            found = await _select(transaction, (account,))
        return tuple(each for each in found if each.shape is shape)

    async def find(self, account: AccountId, shape: Shape, public_id: str) -> Endpoint:
        async with self._store.transaction() as transaction:
            return await _find(transaction, account, shape, public_id)

    async def change(
        self, account: AccountId, shape: Shape, public_id: str, change: EndpointChange
    ) -> Endpoint:
        if change.url is not None:
            check_target(change.url, self._guard)
        async with self._store.transaction() as transaction:
            old = await _find(transaction, account, shape, public_id)
            await transaction.execute(
                _CHANGE,
                (
                    change.name,
                    change.url,
                    None if change.events is None else list(change.events),
                    change.is_enabled,
                    bool(change.is_enabled),
                    old.id,
                ),
            )
            return await _find(transaction, account, shape, public_id)

    async def rotate(
        self, account: AccountId, shape: Shape, public_id: str, *, keeps_old: bool
    ) -> Endpoint:
        """Make a new secret; if `keeps_old`, the old one signs beside it for a while."""
        keep = timedelta(hours=self._settings.old_secret_hours if keeps_old else 0)
        async with self._store.transaction() as transaction:
            old = await _find(transaction, account, shape, public_id)
            await transaction.execute(_ROTATE, (keep, new_secret(), old.id))
            return await _find(transaction, account, shape, public_id)

    async def delete(self, account: AccountId, shape: Shape, public_id: str) -> Endpoint:
        """Delete an endpoint, and with it its pending deliveries."""
        async with self._store.transaction() as transaction:
            old = await _find(transaction, account, shape, public_id)
            await transaction.execute("delete from webhook_endpoints where id = %s", (old.id,))
        return old

    async def _take_place(self, transaction: Transaction, account: AccountId) -> None:
        # Locked per account, because two creations that count at once would both find a place.
        await transaction.execute(
            "select pg_advisory_xact_lock(hashtextextended(%s, 8))", (account,)
        )
        row = await transaction.fetch_one(
            "select count(*) from webhook_endpoints where account = %s", (account,)
        )
        assert row is not None, "a count is one row"
        if row[0] >= self._settings.endpoints_max:
            raise OverLimit(
                f"This account has {row[0]} webhook endpoints and subscriptions, which is as many"
                " as it may have: delete one first."
            )


async def find_enabled(
    transaction: Transaction, accounts: Sequence[AccountId]
) -> tuple[Endpoint, ...]:
    """Return these accounts' enabled endpoints; none can be deleted until the transaction ends."""
    await transaction.execute(
        "select from webhook_endpoints where account = any(%s) order by id for key share",
        (list(accounts),),
    )
    return tuple(each for each in await _select(transaction, accounts) if each.is_enabled)


async def _find(
    transaction: Transaction, account: AccountId, shape: Shape, public_id: str
) -> Endpoint:
    try:
        row_id = uuid.UUID(public_id.removeprefix(_PREFIX))
    except ValueError:
        raise NotFound(_NONE) from None
    found = await _select(transaction, (account,), row_id)
    if not found or found[0].shape is not shape:
        raise NotFound(_NONE)
    return found[0]


async def _select(
    transaction: Transaction, accounts: Sequence[AccountId], row_id: uuid.UUID | None = None
) -> tuple[Endpoint, ...]:
    rows = await transaction.fetch(_SELECT, (list(accounts), row_id, row_id))
    return tuple(_endpoint(row) for row in rows)


def _endpoint(row: Row) -> Endpoint:
    secrets = (bytes(row[11]), *(() if row[12] is None else (bytes(row[12]),)))
    return Endpoint(
        id=str(row[0]),
        account=AccountId(row[1]),
        shape=Shape(row[2]),
        name=row[3],
        url=row[4],
        events=tuple(row[5]),
        model=row[6],
        is_enabled=row[7],
        disabled_reason=row[8],
        created_at=row[9],
        modified_at=row[10],
        secrets=secrets,
    )
