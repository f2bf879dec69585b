"""The rows of pending deliveries: added by the relay, claimed, and ended.

A claim moves a row's due time beyond what a try may take. If the claimer dies, the row becomes due
again: delivery is at least once, with the same id and body.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from penstock.store import Transaction

DELIVERED: Final = "delivered"
RETRIED: Final = "retried"
GIVEN_UP: Final = "given_up"
GONE: Final = "gone"

_ADD: Final = """
insert into deliveries (endpoint, event, body)
select * from unnest(%s::uuid[], %s::text[], %s::text[])
on conflict (event, endpoint) do nothing
"""
# Due rows that are read before they are ranked. Endpoints with the most in flight that they may
# have are left out, so that one endpoint with many rows does not hide the others.
_WINDOW_ROWS: Final = 1000
_CLAIM: Final = """
with busy as (
    select * from unnest(%s::uuid[], %s::bigint[]) as busy (endpoint, count)
), due as (
    select d.id, d.endpoint, d.due_at
    from deliveries d join webhook_endpoints e on e.id = d.endpoint
    where d.due_at <= now() and e.is_enabled
        and d.endpoint <> all (array(select endpoint from busy where count >= %s))
    order by d.due_at limit %s
), ranked as (
    select due.id, coalesce(busy.count, 0)
        + row_number() over (partition by due.endpoint order by due.due_at, due.id) as place
    from due left join busy on busy.endpoint = due.endpoint
), claimed as (
    update deliveries d set due_at = now() + %s, attempts = attempts + 1
    where d.id in (select id from ranked where place <= %s limit %s) and d.due_at <= now()
    returning d.*
)
select c.id, c.endpoint, c.event, c.body, c.attempts, e.url, e.secret,
    case when e.old_secret_until > now() then e.old_secret end, e.account
from claimed c join webhook_endpoints e on e.id = c.endpoint
"""
_COUNT: Final = """
insert into delivery_counts as c (outcome, count) values (%s, %s)
on conflict (outcome) do update set count = c.count + excluded.count
"""


class NewDelivery(msgspec.Struct, frozen=True):
    """A body for an endpoint. `event` is the webhook-id."""

    endpoint: str
    event: str
    body: bytes


class WebhookDelivery(msgspec.Struct, frozen=True):
    """A claimed delivery. `attempts` counts this try."""

    id: int
    endpoint: str
    event: str
    body: bytes
    attempts: int
    url: str
    secrets: tuple[bytes, ...]
    account: str


class DeliveryClaim(msgspec.Struct, frozen=True):
    """The most to claim, in all and for one endpoint, and what is in flight to each already."""

    count: int
    endpoint_at_once_max: int
    lease_seconds: float
    in_flight: Mapping[str, int]


async def add_deliveries(transaction: Transaction, deliveries: Sequence[NewDelivery]) -> None:
    if not deliveries:
        return
    await transaction.execute(
        _ADD,
        (
            [each.endpoint for each in deliveries],
            [each.event for each in deliveries],
            [each.body.decode() for each in deliveries],
        ),
    )


async def claim(transaction: Transaction, want: DeliveryClaim) -> list[WebhookDelivery]:
    """Claim the deliveries that have been due the longest."""
    rows = await transaction.fetch(
        _CLAIM,
        (
            list(want.in_flight),
            list(want.in_flight.values()),
            want.endpoint_at_once_max,
            _WINDOW_ROWS,
            timedelta(seconds=want.lease_seconds),
            want.endpoint_at_once_max,
            want.count,
        ),
    )
    return [
        WebhookDelivery(
            id=row[0],
            endpoint=str(row[1]),
            event=row[2],
            body=row[3].encode(),
            attempts=row[4],
            url=row[5],
            secrets=tuple(bytes(secret) for secret in row[6:8] if secret is not None),
            account=row[8],
        )
        for row in rows
    ]


async def end(transaction: Transaction, delivery: WebhookDelivery, outcome: str) -> None:
    """Delete a delivery that was delivered or given up, and count it."""
    await transaction.execute("delete from deliveries where id = %s", (delivery.id,))
    await transaction.execute(_COUNT, (outcome, 1))


async def retry(
    transaction: Transaction, delivery: WebhookDelivery, problem: str, after_seconds: float
) -> None:
    """Try again later, unless another process has begun the next try already."""
    await transaction.execute(
        "update deliveries set due_at = now() + %s, last_problem = %s"
        " where id = %s and attempts = %s",
        (timedelta(seconds=after_seconds), problem, delivery.id, delivery.attempts),
    )
    await transaction.execute(_COUNT, (RETRIED, 1))


async def disable(transaction: Transaction, delivery: WebhookDelivery, reason: str) -> None:
    """Disable the endpoint until its account enables it again, and drop its deliveries."""
    await transaction.execute(
        "update webhook_endpoints set is_enabled = false, disabled_reason = %s, modified_at = now()"
        " where id = %s",
        (reason, delivery.endpoint),
    )
    await transaction.execute("delete from deliveries where endpoint = %s", (delivery.endpoint,))
    await transaction.execute(_COUNT, (GONE, 1))
