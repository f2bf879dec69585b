"""Webhook endpoints as openai's SDK manages them, subscriptions as cloudflare's does."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

# Postgres stores no NUL, and a name must have no line ends.
Name = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Url = Annotated[str, Meta(min_length=1, max_length=2048)]
EventType = Literal[
    "batch.completed",
    "batch.failed",
    "batch.expired",
    "batch.cancelled",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
    "job.succeeded",
    "job.failed",
    "job.cancelled",
    "job.expired",
    "limit.reached",
    "limit.passed",
]
EventTypes = Annotated[list[EventType], Meta(min_length=1, max_length=16)]
ModelEventType = Literal[
    "cf.workersAi.model.batch.queued",
    "cf.workersAi.model.batch.succeeded",
    "cf.workersAi.model.batch.failed",
]
ModelEventTypes = Annotated[list[ModelEventType], Meta(min_length=1, max_length=16)]


class CreateWebhookEndpoint(msgspec.Struct, frozen=True):
    """`POST /v1/webhook_endpoints`."""

    name: Name
    url: Url
    event_types: EventTypes


class UpdateWebhookEndpoint(msgspec.Struct, frozen=True):
    """`POST /v1/webhook_endpoints/{id}`; what is absent stays as it is."""

    name: Name | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    event_types: EventTypes | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class RotateSecret(msgspec.Struct, frozen=True):
    """`POST /v1/webhook_endpoints/{id}/rotate_secret`."""

    keep_old_secret_active_for_24_hours: bool = False


class TestWebhookEndpoint(msgspec.Struct, frozen=True):
    """`POST /v1/webhook_endpoints/{id}/test`."""

    event_type: EventType


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint. Its secret is here only when it was just made or rotated."""

    id: str
    name: str
    url: str
    event_types: list[str]
    enabled: bool
    # Why it was disabled, if not by the account.
    disabled_reason: str | None
    # Whole seconds since 1970.
    created_at: int
    updated_at: int
    signing_secret_hint: str
    signing_secret: str | UnsetType = UNSET
    object: str = "webhook_endpoint"


class WebhookEndpointList(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/webhook_endpoints`."""

    data: list[WebhookEndpoint]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class WebhookEndpointDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """`DELETE /v1/webhook_endpoints/{id}`."""

    id: str
    deleted: bool = True
    object: str = "webhook_endpoint.deleted"


class WebhookEndpointTested(msgspec.Struct, frozen=True, kw_only=True):
    """How the endpoint answered an event that never happened."""

    webhook_endpoint_id: str
    event_type: str
    status_code: int
    success: bool = True
    object: str = "webhook_endpoint.test"


class KnownEvents(msgspec.Struct, frozen=True):
    """`GET /v1/webhook_event_types`."""

    data: list[str]
    object: str = "list"


class ModelSource(msgspec.Struct, frozen=True):
    """Whose events: those of one model."""

    type: Literal["workersAi.model"]
    model_name: Name


class WebhookDestination(msgspec.Struct, frozen=True):
    """Where they go. There are no queues here."""

    type: Literal["webhook"]
    url: Url


class CreateSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """`POST …/event_subscriptions/subscriptions`."""

    name: Name
    events: ModelEventTypes
    source: ModelSource
    destination: WebhookDestination
    enabled: bool = True


class UpdateSubscription(msgspec.Struct, frozen=True):
    """`PATCH …/event_subscriptions/subscriptions/{id}`; what is absent stays as it is."""

    name: Name | UnsetType = UNSET
    events: ModelEventTypes | UnsetType = UNSET
    destination: WebhookDestination | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription. What signs its events is here only when it was just made."""

    id: str
    name: str
    enabled: bool
    events: list[str]
    source: ModelSource
    destination: WebhookDestination
    created_at: datetime
    modified_at: datetime
    signing_secret: str | UnsetType = UNSET


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event as webhooks and `GET /v1/events` send it."""

    id: str
    type: str
    # Whole seconds since 1970.
    created_at: int
    data: dict[str, Any]
    object: str = "event"
