"""Sends due webhooks, many at once up to a limit, and records how each try ended.

Run by the leading control. If it dies, the tries it had begun are repeated, with the same
webhook-id.
"""

import asyncio
import logging
import random
from collections import Counter
from typing import Final

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.events import deliveries
from penstock.events.backoff import retry_seconds
from penstock.events.deliveries import DeliveryClaim, WebhookDelivery
from penstock.events.settings import WebhookSettings
from penstock.events.signatures import signed_headers
from penstock.outbound.sender import Sender, Sent
from penstock.store import Store

_GONE_STATUS: Final = 410

logger = logging.getLogger(__name__)


class Deliverer:
    """Claims due deliveries every `poll_seconds`; without a pause while it finds some."""

    def __init__(
        self, store: Store, clock: Clock, settings: WebhookSettings, sender: Sender
    ) -> None:
        self._store = store
        self._now = clock.now
        self._settings = settings
        self._sender = sender
        self._in_flight: Counter[str] = Counter()

    async def run(self) -> None:
        """Run until cancelled; losing the leadership must cancel this."""
        async with asyncio.TaskGroup() as group:
            while True:
                claimed = await self._claim()
                for delivery in claimed:
                    self._in_flight[delivery.endpoint] += 1
                    group.create_task(self._deliver(delivery))
                if not claimed:
                    await asyncio.sleep(self._settings.poll_seconds)

    async def _claim(self) -> list[WebhookDelivery]:
        settings = self._settings
        free = settings.at_once_max - self._in_flight.total()
        if free <= 0:
            return []
        want = DeliveryClaim(
            free, settings.endpoint_at_once_max, settings.lease_seconds, self._in_flight
        )
        try:
            async with self._store.transaction() as transaction:
                return await deliveries.claim(transaction, want)
        except StoreUnavailable:
            logger.warning("webhooks wait", extra={"action": "webhooks_wait"})
        except Exception:
            # Caught here so that the other work of control goes on.
            logger.exception("webhooks were not claimed", extra={"action": "webhooks_failed"})
        return []

    async def _deliver(self, delivery: WebhookDelivery) -> None:
        try:
            headers = signed_headers(delivery.event, delivery.body, delivery.secrets, self._now())
            sent = await self._sender.post(delivery.account, delivery.url, headers, delivery.body)
            await self._note(delivery, sent)
        except StoreUnavailable:
            # The delivery is due again when its claim has lapsed.
            logger.warning("webhook not noted", extra={"action": "webhook_not_noted"})
        except Exception:
            # Caught here so that one delivery ends neither the others nor the leading process.
            logger.exception("webhook failed", extra={"action": "webhook_failed"})
        finally:
            self._in_flight[delivery.endpoint] -= 1
            if not self._in_flight[delivery.endpoint]:
                del self._in_flight[delivery.endpoint]

    async def _note(self, delivery: WebhookDelivery, sent: Sent) -> None:
        problem = sent.problem or f"status {sent.status}"
        # The number only spreads retries; no security depends on it.
        chance = random.random()  # noqa: S311 - see above
        pause = retry_seconds(delivery.attempts, chance, self._settings)
        async with self._store.transaction() as transaction:
            if sent.is_taken:
                await deliveries.end(transaction, delivery, deliveries.DELIVERED)
            elif sent.status == _GONE_STATUS:
                await deliveries.disable(transaction, delivery, "it answered 410")
                self._warn("webhook endpoint disabled", delivery, problem)
            elif pause is None:
                await deliveries.end(transaction, delivery, deliveries.GIVEN_UP)
                self._warn("webhook given up", delivery, problem)
            else:
                await deliveries.retry(transaction, delivery, problem, pause)

    def _warn(self, phrase: str, delivery: WebhookDelivery, problem: str) -> None:
        logger.warning(
            phrase,
            extra={
                "action": "webhook_ended",
                "endpoint": delivery.endpoint,
                "webhook": delivery.event,
                "attempts": delivery.attempts,
                "problem": problem,
            },
        )
