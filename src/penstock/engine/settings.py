"""Limits of the way to the engines."""

from typing import Annotated

import msgspec
from msgspec import Meta


class EngineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Timeouts, pool and sizes of upstream connections."""

    # How long a TCP (and TLS) connection to an engine may take to open.
    connect_seconds: Annotated[float, Meta(gt=0, le=60)] = 2.0
    # How long a stream may take to its first data line; a long prompt's prefill is inside it.
    first_byte_seconds: Annotated[float, Meta(gt=0, le=86400)] = 600.0
    # How long a stream may be silent; a killed engine can leave it silent for ever.
    between_bytes_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    # How long a replica may send nothing to any of its requests before it is asked for its health.
    silent_seconds: Annotated[float, Meta(gt=0, le=3600)] = 0.6
    # How long that answer may take; without it the replica is left out until it answers again.
    probe_timeout_seconds: Annotated[float, Meta(gt=0, le=60)] = 1.0
    # How long one answer may take in all.
    total_seconds: Annotated[float, Meta(gt=0, le=604800)] = 3600.0
    # How long an idle connection is kept; below the engine's own keep-alive (vLLM: 5 s).
    idle_seconds: Annotated[float, Meta(ge=0, le=3600)] = 4.0
    # Idle connections kept per replica.
    idle_connections_max: Annotated[int, Meta(ge=0, le=65536)] = 1024
    # The largest answer that is not streamed.
    answer_bytes_max: Annotated[int, Meta(ge=1024, le=2**31)] = 64 * 2**20
    # The largest head of an answer, with interim ones; also the largest trailers or chunk line.
    head_bytes_max: Annotated[int, Meta(ge=1024, le=2**26)] = 64 * 1024
    # The largest single event of a stream.
    event_bytes_max: Annotated[int, Meta(ge=1024, le=2**31)] = 4 * 2**20
    # How much of an answer may wait for a slow client before reading from the engine pauses.
    write_buffer_bytes: Annotated[int, Meta(ge=1024, le=2**26)] = 256 * 1024
    # API keys of engines that want one: base URL to key, "*" for all others.
    api_keys: dict[str, str] = {}
    # A PEM file with the authority that signed the engines' https certificates; "" = the system's.
    ca_file: str = ""
