"""The gateway's face: addresses, and the limits on what a client may do to it."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Listening, limits on clients, and what is allowed from elsewhere."""

    # The address to listen on.
    host: str = "127.0.0.1"
    # The port to listen on.
    port: Annotated[int, Meta(ge=0, le=65535)] = 8787
    # The port for `/metrics`, on the same address; 0 = none.
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 8788
    # A folder for the workers' sockets; "" = a temporary one.
    run_folder: str = ""
    # Worker processes.
    workers: Annotated[int, Meta(ge=1, le=1024)] = 1
    # How long streams may go on after SIGTERM before they are cut.
    drain_seconds: Annotated[int, Meta(ge=0, le=86400)] = 60
    # The largest body of a request.
    body_bytes_max: Annotated[int, Meta(ge=1024, le=2**31)] = 32 * 2**20
    # All bodies that one worker holds at a time.
    bodies_bytes_max: Annotated[int, Meta(ge=1024, le=2**40)] = 1024 * 2**20
    # The largest headers of a request, all together.
    header_bytes_max: Annotated[int, Meta(ge=1024, le=2**20)] = 64 * 1024
    # How long a client may take to send its headers.
    header_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    # How long a body may take before its rate counts, and how often the rate is looked at.
    body_grace_seconds: Annotated[float, Meta(gt=0, le=600)] = 5.0
    # The least rate at which a body must come, after `body_grace_seconds`.
    body_bytes_per_second_min: Annotated[int, Meta(ge=0, le=2**30)] = 1024
    # How long an idle connection is kept open.
    keep_alive_seconds: Annotated[int, Meta(ge=1, le=3600)] = 75
    # Open client connections per worker; more are answered 503.
    connections_max: Annotated[int, Meta(ge=1, le=10**6)] = 20000
    # How long a client may leave a stream unread before it is dropped.
    client_stall_seconds: Annotated[float, Meta(gt=0, le=3600)] = 120.0
    # How often a comment is sent on a stream that has no token yet.
    keepalive_seconds: Annotated[float, Meta(gt=0, le=600)] = 15.0
    # Bytes of JSON that are taken for one prompt token when a budget reserves; 1 is a sure bound.
    prompt_bytes_per_token: Annotated[float, Meta(ge=0.5, le=16)] = 3.0
    # Hosts from which media may be fetched by the engine; `data:` URLs always may.
    media_hosts: tuple[str, ...] = ()
    # Origins that browsers may call from; `["*"]` = any.
    cors_origins: tuple[str, ...] = ()
