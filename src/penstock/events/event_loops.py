"""Runs the event loops of the leading control: relay, deliveries, retention."""

import asyncio

from penstock.clock import Clock
from penstock.events.deliverer import Deliverer
from penstock.events.event import FailureNumbers
from penstock.events.relay import Relay
from penstock.events.retention import EventRetention
from penstock.events.settings import EventsSettings, WebhookSettings
from penstock.outbound.sender import Sender
from penstock.store import Store


class EventLoops:
    """Runs while its process leads; the next leader continues what it had begun."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: EventsSettings,
        webhooks: WebhookSettings,
        numbers: FailureNumbers,
    ) -> None:
        self._relay = Relay(store, settings, numbers)
        self._deliverer = Deliverer(store, clock, webhooks, Sender(webhooks))
        self._retention = EventRetention(store, settings, webhooks)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._relay.run())
            group.create_task(self._deliverer.run())
            group.create_task(self._retention.run())
