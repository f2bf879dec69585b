"""Settings of policy: how fresh each gateway's mirror of the keys is, and how large it may be."""

from typing import Annotated

import msgspec
from msgspec import Meta


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Revocation is seen within 5 s everywhere, so a refresh comes at least every 4 s."""

    # How often each gateway asks Postgres for changed keys and accounts.
    refresh_seconds: Annotated[float, Meta(ge=0.05, le=4)] = 2.0
    # How often, at most, keys that a gateway does not know make it ask sooner.
    miss_refresh_seconds: Annotated[float, Meta(ge=0.01, le=4)] = 0.1
    # How long a request with an unknown key waits for Postgres before it is answered 503.
    miss_wait_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 5.0
    # How many requests with unknown keys may wait at once; more are answered 503 at once.
    miss_waiting_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    # The longest pause between two attempts while Postgres does not answer.
    retry_seconds_max: Annotated[float, Meta(ge=0.05, le=60)] = 5.0
    # How many times a starting gateway tries to read the keys before it gives up.
    load_attempts_max: Annotated[int, Meta(ge=1, le=10_000)] = 20
    # How many keys, revoked ones included, a gateway keeps in memory (about 400 bytes each).
    keys_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 200_000
    # How many accounts a gateway keeps in memory (about 500 bytes each).
    accounts_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
