"""All that accounts see of events, put together: the stream, webhook endpoints, subscriptions."""

from starlette.routing import Route

from penstock.clock import Clock
from penstock.events import EndpointBook, Feed, Sender, Settings, WebhookSettings
from penstock.ingress.event_pages import EventPages
from penstock.ingress.reading import RequestReader
from penstock.ingress.subscription_pages import SubscriptionPages
from penstock.ingress.webhook_pages import WebhookPages
from penstock.store import Store


class EventDoors:
    """One for each worker; its `feed` must be run."""

    def __init__(
        self,
        store: Store,
        reader: RequestReader,
        settings: Settings,
        webhooks: WebhookSettings,
        clock: Clock,
    ) -> None:
        self.feed = Feed(store, settings)
        book = EndpointBook(store, webhooks)
        self._events = EventPages(reader, self.feed)
        self._webhooks = WebhookPages(reader, book, Sender(webhooks), webhooks, clock)
        self._subscriptions = SubscriptionPages(reader, book)

    def routes(self) -> list[Route]:
        return [*self._events.routes(), *self._webhooks.routes(), *self._subscriptions.routes()]
