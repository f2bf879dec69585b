"""Settings of events: `[events]` for the log and its readers, `[webhooks]` for deliveries."""

import ipaddress
from typing import Annotated

import msgspec
from msgspec import Meta


class EventsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The log of what happened to an account's work, and `GET /v1/events`, which reads it."""

    # How often control looks for new events.
    relay_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.2
    # Events that are moved into the log in one transaction.
    relay_rows_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # How long events are kept; a reader that comes back later than this has missed some.
    keep_hours: Annotated[float, Meta(ge=0.01, le=8760)] = 24.0
    # How often each gateway worker looks for events that its readers want.
    poll_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.5
    # Events that are read from the log at once.
    page_rows_max: Annotated[int, Meta(ge=1, le=10_000)] = 500
    # Open event streams per worker.
    streams_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # Open event streams of one account per worker.
    streams_per_account_max: Annotated[int, Meta(ge=1, le=10_000)] = 16
    # Events that may wait for one reader; one that is further behind is cut, and may resume.
    stream_events_max: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    # How often a comment is sent on a stream that has no event.
    keepalive_seconds: Annotated[float, Meta(gt=0, le=600)] = 15.0

    def __post_init__(self) -> None:
        if self.stream_events_max < self.page_rows_max:
            raise ValueError("stream_events_max is less than page_rows_max, so a page would cut")


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where webhooks may go, how they are sent, and how long they are tried."""

    # Networks that webhooks may reach beside public addresses (`10.1.0.0/16`); http only there.
    allowed_networks: tuple[str, ...] = ()
    # A file of certificate authorities to trust; "" = the machine's own.
    ca_file: str = ""
    # Endpoints and subscriptions of one account, together.
    endpoints_max: Annotated[int, Meta(ge=1, le=10_000)] = 20
    # How often control looks for deliveries that are due.
    poll_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.2
    # Deliveries that are sent at once.
    at_once_max: Annotated[int, Meta(ge=1, le=10_000)] = 128
    # Deliveries that are sent to one endpoint at once.
    endpoint_at_once_max: Annotated[int, Meta(ge=1, le=1000)] = 4
    # Tests of endpoints that one gateway worker sends at once.
    tests_at_once_max: Annotated[int, Meta(ge=1, le=1000)] = 4
    # How long one try may take, from asking for the address to the answer's status.
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=300)] = 10.0
    # After how long a delivery that was begun and not reported is sent again.
    lease_seconds: Annotated[float, Meta(ge=0.2, le=3600)] = 60.0
    # The pause after the first try that failed; each next one is four times as long.
    retry_seconds_min: Annotated[float, Meta(ge=0.01, le=3600)] = 5.0
    # The longest pause between two tries.
    retry_seconds_max: Annotated[float, Meta(ge=0.01, le=604_800)] = 86_400.0
    # Tries before a delivery is given up.
    attempts_max: Annotated[int, Meta(ge=1, le=100)] = 10
    # How long an old secret signs beside its successor, where the caller asks for it.
    old_secret_hours: Annotated[float, Meta(ge=0, le=8760)] = 24.0
    # After how long a delivery that is still there, to an endpoint that was disabled, is dropped.
    keep_hours: Annotated[float, Meta(ge=1, le=8760)] = 336.0
    # Names that are looked up at once.
    lookups_at_once_max: Annotated[int, Meta(ge=1, le=256)] = 16
    # Names of one account that are looked up at once; its other deliveries wait for their turn.
    lookups_per_account_max: Annotated[int, Meta(ge=1, le=256)] = 4

    def __post_init__(self) -> None:
        if self.lease_seconds <= self.timeout_seconds:
            raise ValueError("lease_seconds must be longer than timeout_seconds")
        if self.retry_seconds_min > self.retry_seconds_max:
            raise ValueError("retry_seconds_min is greater than retry_seconds_max")
        for network in self.allowed_networks:
            # Raises a ValueError that states what is wrong with the network.
            ipaddress.ip_network(network)
