"""Publishes what became of accounts' work: webhooks, subscriptions, and a stream of events.

Promises: an event that was committed is in the log once, and is sent at least once to every
endpoint that asked for it, with one id; a reader of the log misses none and gets none twice. It
decides nothing about jobs: the queue writes events into the outbox.
"""

from penstock.events.endpoints import Endpoint, EndpointBook, EndpointChange, NewEndpoint
from penstock.events.event import Event, Shape, openai_body
from penstock.events.event_loops import EventLoops
from penstock.events.feed import Feed, Reader
from penstock.events.figures import DeliveryFigures, read_figures
from penstock.events.settings import EventsSettings, WebhookSettings

__all__ = [
    "DeliveryFigures",
    "Endpoint",
    "EndpointBook",
    "EndpointChange",
    "Event",
    "EventLoops",
    "EventsSettings",
    "Feed",
    "NewEndpoint",
    "Reader",
    "Shape",
    "WebhookSettings",
    "openai_body",
    "read_figures",
]
