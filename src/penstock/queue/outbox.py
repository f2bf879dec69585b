"""Events to publish: rows that commit in the same transaction as the change they describe.

The only writer of the table `outbox`. The events room delivers them.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.clock import new_id
from penstock.records.account import AccountId
from penstock.store import Transaction

# An event has few, short values: ids, names, a failure's code. Never a prompt or an answer.
Data = dict[str, str | int | None]

_ADD: Final = """
    insert into outbox (id, account, type, data)
    select id, account, type, data
    from unnest(%s::uuid[], %s::text[], %s::text[], %s::jsonb[]) as e (id, account, type, data)
"""
_TAKE: Final = """
    delete from outbox where id = any (array(
        select id from outbox order by id limit %s for update skip locked
    ))
    returning id::text, account, type, extract(epoch from created_at)::float8, data
"""


class NewEvent(msgspec.Struct, frozen=True):
    """An event to add to the outbox."""

    account: AccountId
    type: str
    data: Data


class OutboxEvent(msgspec.Struct, frozen=True):
    """An event from the outbox. Ids sort by time, as far as hosts' clocks agree."""

    id: str
    account: AccountId
    type: str
    # In seconds since 1970.
    created_at: float
    data: Data


async def add(tx: Transaction, events: Sequence[NewEvent]) -> None:
    """Add events; they are published if, and only if, this transaction commits."""
    if not events:
        return
    await tx.execute(
        _ADD,
        (
            [new_id() for _ in events],
            [event.account for event in events],
            [event.type for event in events],
            [msgspec.json.encode(event.data).decode() for event in events],
        ),
    )


async def take(tx: Transaction, limit: int) -> list[OutboxEvent]:
    """Remove and return the oldest events; the caller owns them once its transaction commits."""
    rows = await tx.fetch(_TAKE, (limit,))
    return sorted((OutboxEvent(*row) for row in rows), key=lambda event: event.id)
