"""Settings of the choice of a replica."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How replicas that failed are left out."""

    # How long a replica that failed is left alone before it is probed for the first time.
    eject_seconds: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    # How often an ejected replica is probed; it comes back with its first healthy answer.
    probe_seconds: Annotated[float, Meta(gt=0, le=3600)] = 1.0
