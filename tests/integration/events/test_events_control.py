"""A leading control tells of what happened, and ends what has nothing left to wait for."""

import json
from pathlib import Path

from tests.integration.cells.leading_control import WEBHOOKS, leading
from tests.integration.cells.webhook_receiver import Received, receiving

from penstock.clock import SystemClock, new_id
from penstock.events import EndpointBook, NewEndpoint, Shape
from penstock.events.event import WORKERS_AI_TYPES
from penstock.policy import AccountBook
from penstock.queue import Batches, NewBatch
from penstock.records.account import AccountId, KeyId
from penstock.records.job import BatchId, Door
from penstock.records.model import ModelId
from penstock.store import Store

MODEL = "@cf/test/chat"


async def test_a_batch_is_told_of_when_it_is_queued_and_when_it_has_ended(
    store: Store, dsn: str, tmp_path: Path
) -> None:
    account = (await AccountBook(store).create("first")).id
    async with receiving() as receiver:
        wanted = NewEndpoint(
            account, Shape.WORKERS_AI, "mine", receiver.url, WORKERS_AI_TYPES, model=MODEL
        )
        subscription = await EndpointBook(store, WEBHOOKS).create(wanted)
        batch = await _open_batch(store, account)
        # Two, of whom one leads; the other takes over when that one goes.
        async with leading(store, dsn, tmp_path), leading(store, dsn, tmp_path):
            await receiver.wait_for(2)
        again = await _open_batch(store, account)
        async with leading(store, dsn, tmp_path):
            received = await receiver.wait_for(4)
    told = {_what(each) for each in received}
    assert told == {(kind, request) for kind in WORKERS_AI_TYPES[:2] for request in (batch, again)}
    body = json.loads(received[0].body)
    assert body["source"] == {"type": "workersAi.model", "modelName": MODEL}
    assert body["metadata"]["accountId"] == account
    assert body["metadata"]["eventSubscriptionId"] == subscription.id


def _what(received: Received) -> tuple[str, str]:
    body = json.loads(received.body)
    return body["type"], body["payload"]["requestId"]


async def _open_batch(store: Store, account: AccountId) -> str:
    batch = NewBatch(
        id=BatchId(new_id()),
        account=account,
        key=KeyId("key"),
        door=Door.WORKERS_AI,
        deadline=SystemClock().now() + 3600,
        model=ModelId(MODEL),
    )
    async with store.transaction() as transaction:
        return await Batches().open(transaction, batch)
