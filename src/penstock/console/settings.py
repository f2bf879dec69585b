"""Settings of the listener on which `penstock control` serves administration."""

from ipaddress import ip_network
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.ingress.settings import IngressSettings


class ControlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where operators reach control, and how much they may ask of it."""

    # The address to listen on. Put TLS in front of any but loopback.
    host: str = "127.0.0.1"
    # The port of the operator's API; 0 = none.
    port: Annotated[int, Meta(ge=0, le=65535)] = 8790
    # The largest body of a request; a set of contracts is one.
    body_bytes_max: Annotated[int, Meta(ge=1024, le=64 * 2**20)] = 4 * 2**20
    # Open connections; more are answered 503.
    connections_max: Annotated[int, Meta(ge=1, le=10_000)] = 200
    # Requests that are served at a time; more are answered 503.
    requests_at_once_max: Annotated[int, Meta(ge=1, le=1000)] = 16
    # Requests of one key in a minute; more are answered 429.
    requests_per_minute: Annotated[int, Meta(ge=1, le=10**6)] = 600
    # Requests of one client address with a wrong key, in a minute; more are answered 429 unread.
    wrong_keys_per_minute: Annotated[int, Meta(ge=1, le=10**6)] = 30
    # Whether the console's pages are served beside the API.
    console: bool = True
    # Where browsers reach the console, such as `https://penstock.example.com`; empty = http at this
    # address. With https its cookie is sent over TLS only.
    console_url: Annotated[str, Meta(pattern=r"^(https?://[^/\s]+)?$")] = ""
    # Connections to Postgres that the console's pages have, apart from those of control's loops.
    console_connections: Annotated[int, Meta(ge=1, le=100)] = 3
    # How long the server may work on one statement of a page.
    console_statement_seconds: Annotated[float, Meta(ge=0.1, le=600)] = 5.0
    # How long somebody stays signed in.
    console_session_hours: Annotated[float, Meta(ge=0.01, le=168)] = 8.0
    # How long somebody stays signed in without asking for a page.
    console_idle_minutes: Annotated[float, Meta(ge=0.01, le=10_080)] = 30.0
    # Sign-ins with a wrong key from one client address in a minute; more are answered 429.
    console_sign_ins_per_minute: Annotated[int, Meta(ge=1, le=10**6)] = 5
    # The header in which a proxy names whom it has signed in, such as `x-forwarded-user`; empty =
    # people sign in with keys alone. The proxy must drop this header from what clients send.
    console_person_header: Annotated[str, Meta(pattern=r"^[a-z0-9-]*$")] = ""
    # Networks of the proxies whose word counts. Whatever else can connect from there can name
    # anybody.
    console_proxy_networks: tuple[str, ...] = ()
    # What these people may do: `auditor` reads, `operator` changes.
    console_person_role: Literal["auditor", "operator"] = "auditor"
    # How often a live page renews itself.
    console_live_seconds: Annotated[float, Meta(ge=0.5, le=3600)] = 2.0
    # The gateway that the console's playground asks; empty = no playground.
    console_gateway_url: Annotated[str, Meta(pattern=r"^(https?://[^/\s]+)?$")] = (
        "http://127.0.0.1:8787"
    )
    # How long the playground waits for the head of an answer.
    console_gateway_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 120.0

    def __post_init__(self) -> None:
        for network in self.console_proxy_networks:
            # Raises a ValueError that states what is wrong with the network.
            ip_network(network)
        if bool(self.console_person_header) != bool(self.console_proxy_networks):
            raise ValueError("console_person_header and console_proxy_networks need each other")

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
