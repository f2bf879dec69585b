"""Asks, for every account, to be told how its work ends: batches, single jobs, Workers AI's."""

import asyncio
from collections.abc import Sequence

from tests.chaos.flex_cell import MODEL, Customer
from tests.chaos.flex_load import Load

_OPENAI_TYPES = ["batch.completed", "batch.failed", "batch.expired", "job.succeeded", "job.failed"]
_MODEL_TYPES = ["queued", "succeeded", "failed"]
_AT_ONCE = 4


async def listen_for_events(load: Load, customers: Sequence[Customer], url: str) -> None:
    """A webhook endpoint and a subscription for each."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def subscribe(customer: Customer) -> None:
        async with slots:
            endpoint = {"name": "flex", "url": url, "event_types": _OPENAI_TYPES}
            await load.call(load.post(customer, "/v1/webhook_endpoints", endpoint))
            subscription = {
                "name": "flex",
                "enabled": True,
                "events": [f"cf.workersAi.model.batch.{kind}" for kind in _MODEL_TYPES],
                "source": {"type": "workersAi.model", "model_name": MODEL},
                "destination": {"type": "webhook", "url": url},
            }
            path = f"/client/v4/accounts/{customer.account}/event_subscriptions/subscriptions"
            await load.call(load.post(customer, path, subscription))

    async with asyncio.TaskGroup() as group:
        for customer in customers:
            group.create_task(subscribe(customer))
