"""Settings of containers and of the sandbox hosts that run them, `[tools]`."""

from typing import Annotated

import msgspec
from msgspec import Meta

_HostUrl = Annotated[str, Meta(pattern=r"^https?://[^/\s@?#]+/?$", max_length=300)]


class ToolsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where code runs, what containers may use, and what of them is kept."""

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

    def __post_init__(self) -> None:
        if self.container_idle_minutes > self.container_idle_minutes_max:
            raise ValueError("container_idle_minutes is greater than container_idle_minutes_max")
        if self.exec_seconds > self.exec_seconds_max:
            raise ValueError("exec_seconds is greater than exec_seconds_max")

    @property
    def nanousd_per_gb_minute(self) -> int:
        """Return the price as an integer; the text has at most nine decimals."""
        whole, _, decimals = self.container_usd_per_gb_minute.partition(".")
        return int(whole) * 10**9 + int(decimals.ljust(9, "0"))
