"""Limits of the wait for capacity."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queue in front of a busy model, in each gateway worker."""

    # How many requests may wait for one model; more are answered 429 (code 3040).
    waiting_max: Annotated[int, Meta(ge=0, le=10**6)] = 1000
    # How long a request may wait for a free slot before it is answered 429 (code 3040).
    wait_seconds_max: Annotated[float, Meta(ge=0, le=3600)] = 60.0
    # What `Retry-After` says when the wait was too long or the queue is full.
    retry_after_seconds: Annotated[int, Meta(ge=1, le=3600)] = 5
