"""Settings of the request path, and of the storage of jobs' large values."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ServingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a request is tried again on another replica, and where jobs' large values are kept."""

    # How often one request may be tried again, on connect errors, resets and 503 only.
    retries_max: Annotated[int, Meta(ge=0, le=10)] = 2
    # Retries as a share of all requests; beyond it a failure is answered at once.
    retry_share_max: Annotated[float, Meta(ge=0, le=1)] = 0.1
    # Retries that are allowed whatever the share, per ten seconds: a quiet gateway may retry too.
    retry_burst: Annotated[int, Meta(ge=0, le=10000)] = 20
    # Payloads and results of jobs above this size are kept in object storage, not in their row.
    objects_above_bytes: Annotated[int, Meta(ge=0, le=2**24)] = 32 * 1024
    # How many of them one process writes or deletes at a time.
    objects_at_once: Annotated[int, Meta(ge=1, le=1000)] = 16
