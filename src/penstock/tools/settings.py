"""Settings of tools that run here: containers on sandbox hosts, and MCP servers; `[tools]`."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.outbound import CallLimits
from penstock.tools.mcp_settings import McpServerSettings

_HostUrl = Annotated[str, Meta(pattern=r"^https?://[^/\s@?#]+/?$", max_length=300)]


class ToolsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where code runs and what is kept of it; which MCP servers are called, and how."""

    # Addresses of sandbox hosts (`penstock sandbox`), such as `http://10.0.0.9:8795`; empty = none.
    sandbox_hosts: Annotated[tuple[_HostUrl, ...], Meta(max_length=100)] = ()
    # A file with the token that sandbox hosts ask for, the same for all of them.
    sandbox_token_file: str = ""
    # The authority that signed the hosts' certificates; empty for those that the system trusts.
    sandbox_ca_file: str = ""
    # Whether accounts share hosts whose containers share the host's kernel (bubblewrap, --dev).
    allow_shared_kernel: bool = False
    # How many containers of one account may run at a time.
    containers_per_account_max: Annotated[int, Meta(ge=1, le=10_000)] = 20
    # After how many minutes without use a container ends, where its request does not say.
    container_idle_minutes: Annotated[int, Meta(ge=1, le=1440)] = 20
    # The largest `expires_after.minutes` that a request may ask for.
    container_idle_minutes_max: Annotated[int, Meta(ge=1, le=1440)] = 20
    # After how many minutes a container ends, however much it is used.
    life_minutes_max: Annotated[int, Meta(ge=1, le=10_080)] = 120
    # How long code may run, where its caller does not say.
    exec_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    # How long code may run at most.
    exec_seconds_max: Annotated[float, Meta(gt=0, le=3600)] = 300.0
    # How much is kept of one container's files.
    artifact_bytes_max: Annotated[int, Meta(ge=1024, le=2**32)] = 64 * 2**20
    # How many files of one container are kept.
    files_per_container_max: Annotated[int, Meta(ge=1, le=10_000)] = 200
    # How much an account may keep in files of containers.
    container_bytes_per_account_max: Annotated[int, Meta(ge=0, le=2**50)] = 10 * 2**30
    # How long files are kept after their container has ended.
    container_files_kept_seconds: Annotated[float, Meta(ge=0, le=31_536_000)] = 86_400.0
    # What a container costs for each gigabyte of its memory and minute, in dollars.
    container_usd_per_gb_minute: Annotated[str, Meta(pattern=r"^\d{1,4}(\.\d{1,9})?$")] = "0"

    # How long one call of a tool may take.
    call_seconds_max: Annotated[float, Meta(ge=0.1, le=3600)] = 300.0
    # How much of a tool's output the model is told, in bytes: its beginning and its end.
    output_bytes_max: Annotated[int, Meta(ge=1024, le=2**24)] = 64 * 1024
    # The MCP servers that you offer, each a table (see below).
    mcp_servers: tuple[McpServerSettings, ...] = ()
    # Hosts that callers may name by `server_url`, by https; `"*"` = any with a public address.
    mcp_hosts: tuple[str, ...] = ()
    # A file of certificate authorities to trust for MCP servers; "" = the machine's own.
    mcp_ca_file: str = ""
    # MCP servers that one request may name.
    mcp_servers_per_request_max: Annotated[int, Meta(ge=1, le=128)] = 16
    # How long an MCP server may take to say which tools it has.
    mcp_list_seconds_max: Annotated[float, Meta(ge=0.1, le=600)] = 30.0
    # How long looking up a server's name and connecting may take.
    mcp_connect_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 5.0
    # How long a server may take until its answer begins.
    mcp_first_byte_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 120.0
    # How long the end of a session with a server may take.
    mcp_close_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 2.0
    # How long it is remembered which of its two eras of the protocol a server speaks.
    mcp_era_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 3600.0
    # Servers of which that is remembered.
    mcp_eras_max: Annotated[int, Meta(ge=1, le=100_000)] = 1024
    # The largest answer of a server that is read, streams included.
    mcp_body_bytes_max: Annotated[int, Meta(ge=4096, le=2**28)] = 8 * 2**20
    # The largest event of a streamed answer.
    mcp_event_bytes_max: Annotated[int, Meta(ge=4096, le=2**28)] = 4 * 2**20
    # Messages in one streamed answer, such as notifications before the result.
    mcp_events_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    # Pages in which one server lists its tools.
    mcp_pages_max: Annotated[int, Meta(ge=1, le=1000)] = 32
    # Tools that one server may list.
    mcp_tools_max: Annotated[int, Meta(ge=1, le=4096)] = 128
    # The largest schema or description of a tool; a tool with a larger one is left out.
    mcp_schema_bytes_max: Annotated[int, Meta(ge=256, le=2**22)] = 32 * 1024
    # Names of MCP servers that are looked up at once.
    mcp_lookups_at_once_max: Annotated[int, Meta(ge=1, le=256)] = 16
    # Names that are looked up at once for one account.
    mcp_lookups_per_account_max: Annotated[int, Meta(ge=1, le=256)] = 4

    def __post_init__(self) -> None:
        if self.container_idle_minutes > self.container_idle_minutes_max:
            raise ValueError("container_idle_minutes is greater than container_idle_minutes_max")
        if self.exec_seconds > self.exec_seconds_max:
            raise ValueError("exec_seconds is greater than exec_seconds_max")
        labels = [server.label for server in self.mcp_servers]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"mcp_servers: `{twice[0]}` is there twice")

    @property
    def nanousd_per_gb_minute(self) -> int:
        """Return the price as an integer; the text has at most nine decimals."""
        whole, _, decimals = self.container_usd_per_gb_minute.partition(".")
        return int(whole) * 10**9 + int(decimals.ljust(9, "0"))

    @property
    def mcp_call_limits(self) -> CallLimits:
        """What bounds each HTTP call to an MCP server."""
        return CallLimits(
            ca_file=self.mcp_ca_file,
            connect_seconds=self.mcp_connect_seconds,
            first_byte_seconds=self.mcp_first_byte_seconds,
            body_bytes_max=self.mcp_body_bytes_max,
            lookups_at_once_max=self.mcp_lookups_at_once_max,
            lookups_per_account_max=self.mcp_lookups_per_account_max,
        )
