"""Settings of the listener on which `penstock control` serves administration."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.ingress.settings import IngressSettings


class ControlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where operators reach control, and how much they may ask of it."""

    # The address to listen on. Put TLS in front of any but loopback.
    host: str = "127.0.0.1"
    # The port of the operator's API; 0 = none.
    port: Annotated[int, Meta(ge=0, le=65535)] = 8790
    # The largest body of a request.
    body_bytes_max: Annotated[int, Meta(ge=1024, le=64 * 2**20)] = 2**20
    # Open connections; more are answered 503.
    connections_max: Annotated[int, Meta(ge=1, le=10_000)] = 200
    # Requests that are served at a time; more are answered 503.
    requests_at_once_max: Annotated[int, Meta(ge=1, le=1000)] = 16
    # Requests of one key in a minute; more are answered 429.
    requests_per_minute: Annotated[int, Meta(ge=1, le=10**6)] = 600
    # Requests of one client address with a wrong key, in a minute; more are answered 429 unread.
    wrong_keys_per_minute: Annotated[int, Meta(ge=1, le=10**6)] = 30

    @property
    def ingress(self) -> IngressSettings:
        """Return the limits of its connections, in the words of a gateway's."""
        return IngressSettings(
            host=self.host,
            port=self.port,
            metrics_port=0,
            body_bytes_max=self.body_bytes_max,
            bodies_bytes_max=max(64 * 2**20, 2 * self.body_bytes_max),
            bodies_share_unknown_max=1.0,
            file_bytes_max=1024,
            connections_max=self.connections_max,
            client_stall_seconds=30.0,
        )
