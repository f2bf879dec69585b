"""Settings of signals: the transport, its intervals, and its size limits."""

import os
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

# The kernel's limit for the path of a Unix socket, and the part of it that the file name takes.
_PATH_BYTES_MAX: Final = 107
_NAME_BYTES: Final = len("/01234567-0123456789abcdef.sock")


class SignalsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With the defaults the workers of one host hear each other; several hosts need NATS."""

    # `local`: workers of one host; `nats`: several hosts; `off`: each routes as if all were silent.
    transport: Literal["local", "nats", "off"] = "local"
    # Sockets and the shared table of one host's workers; may be on a memory file system.
    folder: str = "penstock-state/signals"
    # Servers of NATS, separated by commas: `nats://host:4222`, or `tls://` for TLS.
    nats_url: str = "nats://127.0.0.1:4222"
    # The user at NATS; empty without one.
    nats_user: str = ""
    # A file with that user's password, or with a token where no user is set.
    nats_password_file: str = ""
    # The authority that signed the certificate of NATS; empty for those that the system trusts.
    nats_ca_file: str = ""
    # A client certificate and its key in one PEM file, where NATS asks for one.
    nats_certificate_file: str = ""
    # How long one attempt to reach NATS may take.
    nats_connect_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 2.0
    # The pause before NATS is tried again.
    nats_retry_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 0.5
    # How often NATS is asked for a sign of life; after three without one the connection is renewed.
    nats_ping_seconds: Annotated[float, Meta(ge=0.1, le=600)] = 2.0
    # Messages from or for NATS that may wait in a worker; more are dropped.
    nats_pending_max: Annotated[int, Meta(ge=1, le=65536)] = 1024
    # How often each worker and keeper says what it has under way.
    interval_seconds: Annotated[float, Meta(ge=0.05, le=1)] = 0.1
    # After so long without a message a peer is silent, and its claims no longer count.
    silence_seconds: Annotated[float, Meta(ge=0.2, le=60)] = 1.0
    # How long a silent peer is missed, and how far the hosts' clocks may be apart.
    memory_seconds: Annotated[float, Meta(ge=1, le=86400)] = 600.0
    # The longest message; the oldest prompts are left out where it would be longer.
    message_bytes_max: Annotated[int, Meta(ge=4096, le=131072)] = 65536
    # Workers and keepers that are heard at a time; more are not listened to.
    peers_max: Annotated[int, Meta(ge=1, le=65536)] = 256
    # Workers of one host in the shared table; more do without it.
    workers_max: Annotated[int, Meta(ge=1, le=1024)] = 64
    # Replicas in the shared table; more are known by messages only.
    replicas_max: Annotated[int, Meta(ge=1, le=65536)] = 1024
    # A replica's row that no worker has used for so long may go to another replica.
    row_idle_seconds: Annotated[float, Meta(ge=1, le=86400)] = 60.0

    def __post_init__(self) -> None:
        if len(os.fsencode(self.folder)) > _PATH_BYTES_MAX - _NAME_BYTES:
            raise ValueError(
                f"folder must have at most {_PATH_BYTES_MAX - _NAME_BYTES} bytes: Unix sockets are"
                " made in it, and the kernel takes no longer paths for them"
            )
        if self.silence_seconds < 2 * self.interval_seconds:
            raise ValueError("silence_seconds must be at least twice interval_seconds")
        if any(urlsplit(url).username for url in self.nats_url.split(",")):
            raise ValueError("nats_url must have no password: use nats_user, nats_password_file")
