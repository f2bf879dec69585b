"""Events of an account, put where the stream and webhooks find them, without the work behind."""

from tests.integration.cells.gateway_cell import Cell

from penstock.events import EventsSettings
from penstock.events.relay import Relay
from penstock.ingress.pages.subscription_pages import failure_numbers
from penstock.queue import outbox
from penstock.records.account import AccountId
from penstock.store import Store


def happen(cell: Cell, account: str, kind: str, *ids: str) -> None:
    """One event of this kind for each id, in order."""

    async def tell(store: Store) -> None:
        for each in ids:
            async with store.transaction() as transaction:
                event = outbox.NewEvent(AccountId(account), kind, {"id": each})
                await outbox.add(transaction, [event])
            await Relay(store, EventsSettings(), failure_numbers).step()

    cell.run(tell)
