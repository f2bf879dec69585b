"""Publishes notices of limits as events of their accounts."""

from collections.abc import Sequence

from penstock.admission import LimitNotice
from penstock.queue import outbox
from penstock.queue.outbox import NewEvent
from penstock.store import Transaction


async def publish_notices(transaction: Transaction, notices: Sequence[LimitNotice]) -> None:
    """Add an event for each notice; they are published if the transaction commits."""
    await outbox.add(transaction, [NewEvent(*notice) for notice in notices])
