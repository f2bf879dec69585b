"""Bounds of the wait for capacity, and of limits and budgets."""

from typing import Annotated

import msgspec
from msgspec import Meta


class AdmissionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queue in front of a busy model, and what a worker holds of limits and budgets."""

    # How many requests may wait for one model; more are answered 429 (code 3040).
    waiting_max: Annotated[int, Meta(ge=0, le=10**6)] = 1000
    # How long a request may wait for a free slot before it is answered 429 (code 3040).
    wait_seconds_max: Annotated[float, Meta(ge=0, le=3600)] = 60.0
    # How many requests may wait for a model at zero replicas; more are answered 503 (code 3040).
    wake_waiting_max: Annotated[int, Meta(ge=0, le=10**6)] = 1000
    # How long a request may wait for such a model to start before it is answered 503 (code 3040).
    wake_seconds_max: Annotated[float, Meta(ge=0, le=3600)] = 600.0
    # What `Retry-After` says to those who are refused, while no request was yet seen to end.
    retry_after_seconds: Annotated[int, Meta(ge=1, le=3600)] = 5
    # The most that `Retry-After` says; else it is how long the queue takes at the measured rate.
    retry_after_seconds_max: Annotated[int, Meta(ge=1, le=3600)] = 60
    # How far back the measured rate at which a model's requests end looks.
    drain_memory_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    # How often a gateway worker asks Postgres for limits that were set, changed or removed.
    limits_refresh_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # How many limits there may be; `penstock limit set` refuses more.
    limits_max: Annotated[int, Meta(ge=1, le=10**6)] = 100_000
    # How many times a starting gateway tries to read the limits before it gives up.
    limits_load_attempts_max: Annotated[int, Meta(ge=1, le=10_000)] = 20
    # How long a lease is good for unless it is renewed, which happens three times in that time.
    lease_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    # How long a worker keeps what it has leased and does not use before it gives it back.
    lease_return_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.5
    # How long a request waits for a lease before Postgres counts as away.
    lease_wait_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 3.0
    # How many requests may wait for a lease at once; more are answered 503.
    lease_waiting_max: Annotated[int, Meta(ge=1, le=10**6)] = 10_000
    # How many requests are given their leases in one transaction.
    lease_batch_max: Annotated[int, Meta(ge=1, le=1000)] = 64
    # How many balances (one limit, one value, one window) a worker keeps unused, 500 bytes each.
    pots_max: Annotated[int, Meta(ge=0, le=10**6)] = 20_000
    # How many balances are written or read in one transaction.
    pots_batch_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # How often the spending of warn-only limits is read, events of limits that are used up are
    # written, and balances of ended windows are dropped.
    pots_survey_seconds: Annotated[float, Meta(ge=0.05, le=600)] = 5.0
    # How often a worker asks again whether Postgres is back; meanwhile nobody waits for it.
    outage_retry_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # After how long the leases of a worker that never came back are given up.
    lost_host_hours: Annotated[float, Meta(ge=0.01, le=8760)] = 24.0
