"""Moves events from the outbox into the log, and adds their deliveries.

One transaction does both: an event that is in the log has its deliveries. Run by the leading
control; two at once would be slower but still correct, because the log's numbers come from one row
that is locked until the commit.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from penstock.errors import StoreUnavailable
from penstock.events.deliveries import NewDelivery, add_deliveries
from penstock.events.endpoints import Endpoint, find_enabled
from penstock.events.event import (
    Event,
    FailureNumbers,
    Shape,
    openai_body,
    workers_ai_body,
)
from penstock.events.settings import EventsSettings
from penstock.queue import outbox
from penstock.store import Store, Transaction

_NUMBER: Final = "update event_head set sequence = sequence + %s returning sequence"
_LOG: Final = """
insert into events (sequence, id, account, type, created_at, data)
select sequence, id, account, type, to_timestamp(created_at), data
from unnest(%s::bigint[], %s::uuid[], %s::text[], %s::text[], %s::float8[], %s::jsonb[])
    as event (sequence, id, account, type, created_at, data)
"""

logger = logging.getLogger(__name__)


class Relay:
    """Moves events every `relay_seconds`; without a pause while a transaction cannot take all."""

    def __init__(self, store: Store, settings: EventsSettings, numbers: FailureNumbers) -> None:
        self._store = store
        self._settings = settings
        self._numbers = numbers

    async def run(self) -> None:
        """Run until cancelled; losing the leadership must cancel this."""
        while True:
            moved = 0
            try:
                moved = await self.step()
            except StoreUnavailable:
                logger.warning("events wait", extra={"action": "relay_waits"})
            except Exception:
                # Caught here so that the other work of control goes on.
                logger.exception("events were not moved", extra={"action": "relay_failed"})
            if moved < self._settings.relay_rows_max:
                await asyncio.sleep(self._settings.relay_seconds)

    async def step(self) -> int:
        """Move events once; return how many."""
        async with self._store.transaction() as transaction:
            taken = await outbox.take(transaction, self._settings.relay_rows_max)
            if not taken:
                return 0
            events = await _log(transaction, taken)
            accounts = sorted({event.account for event in events})
            endpoints = await find_enabled(transaction, accounts)
            deliveries = due_deliveries(events, endpoints, self._numbers)
            await add_deliveries(transaction, deliveries)
        return len(events)


def due_deliveries(
    events: Sequence[Event], endpoints: Iterable[Endpoint], numbers: FailureNumbers
) -> list[NewDelivery]:
    """Return the deliveries of these events to these endpoints, with their bodies. Pure."""
    by_account: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_account.setdefault(endpoint.account, []).append(endpoint)
    return [
        NewDelivery(endpoint.id, event.public_id, _body(event, endpoint, numbers))
        for event in events
        for endpoint in by_account.get(event.account, ())
        if event.type in endpoint.events and endpoint.model in ("", event.model)
    ]


def _body(event: Event, endpoint: Endpoint, numbers: FailureNumbers) -> bytes:
    if endpoint.shape is Shape.WORKERS_AI:
        return workers_ai_body(event, endpoint.public_id, numbers)
    return openai_body(event)


async def _log(transaction: Transaction, taken: Sequence[outbox.OutboxEvent]) -> list[Event]:
    row = await transaction.fetch_one(_NUMBER, (len(taken),))
    assert row is not None, "event_head has lost its row"
    first = int(row[0]) - len(taken) + 1
    events = [
        Event(each.id, each.account, each.type, each.created_at, each.data, sequence)
        for sequence, each in enumerate(taken, first)
    ]
    await transaction.execute(
        _LOG,
        (
            [event.sequence for event in events],
            [event.id for event in events],
            [event.account for event in events],
            [event.type for event in events],
            [event.created_at for event in events],
            [msgspec.json.encode(event.data).decode() for event in events],
        ),
    )
    return events
