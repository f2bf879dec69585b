"""Settings of a sandbox host: where gateways reach it, and what containers may use."""

from typing import Annotated

import msgspec
from msgspec import Meta

_Megabytes = Annotated[int, Meta(ge=64, le=2**20)]


class SandboxSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One host with its containers. No setting of a store is read by `penstock sandbox`."""

    # The address to listen on. Put TLS in front of any but loopback.
    host: str = "127.0.0.1"
    # The port that gateways call.
    port: Annotated[int, Meta(ge=1, le=65535)] = 8795
    # The file with the token that gateways must send, 16 characters at least, of mode 0600.
    token_file: str = ""
    # The folder with the Python of containers, as `penstock sandbox image` makes it.
    image: str = "/var/lib/penstock/sandbox-image"
    # Each container runs as a user of its own: the first of their numbers, which are nobody else's.
    uid_first: Annotated[int, Meta(ge=65_536, le=2**31 - 200_000)] = 1_900_000_000
    # How many such users there are; `containers_max` at least.
    uids: Annotated[int, Meta(ge=1, le=100_000)] = 256
    # Containers that are started before they are asked for, of the smallest memory.
    warm: Annotated[int, Meta(ge=0, le=1000)] = 2
    # Containers at a time, warm ones included.
    containers_max: Annotated[int, Meta(ge=1, le=10_000)] = 64
    # Calls that run code at a time; more are refused.
    execs_at_once_max: Annotated[int, Meta(ge=1, le=10_000)] = 32
    # What containers can have of memory, in MiB, ascending; files in /mnt/data and /tmp count.
    memory_tiers_mb: Annotated[tuple[_Megabytes, ...], Meta(min_length=1, max_length=16)] = (
        1024,
        4096,
    )
    # Memory of all containers together; 0 = the machine's, less an eighth (1 GiB at least).
    memory_mb_total: Annotated[int, Meta(ge=0, le=2**30)] = 0
    # CPUs of one container.
    cpus: Annotated[float, Meta(ge=0.05, le=64)] = 1.0
    # Processes and threads of one container.
    pids_max: Annotated[int, Meta(ge=16, le=10_000)] = 128
    # The size of /mnt/data, which is memory.
    data_bytes: Annotated[int, Meta(ge=2**20, le=2**40)] = 512 * 2**20
    # The longest life of a container, whatever a gateway asks for.
    life_seconds_max: Annotated[float, Meta(ge=1, le=30 * 86400)] = 86400.0
    # How long a call may run that does not say; then it is interrupted.
    exec_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 60.0
    # The longest time that a call can ask for.
    exec_seconds_max: Annotated[float, Meta(ge=0.1, le=3600)] = 300.0
    # The largest body of a request, other than a file: code, that is.
    body_bytes_max: Annotated[int, Meta(ge=1024, le=64 * 2**20)] = 4 * 2**20
    # The largest file that goes in or out.
    file_bytes_max: Annotated[int, Meta(ge=1024, le=2**30)] = 64 * 2**20
    # Files that go in or out at a time; others wait. Each is held in memory.
    files_at_once_max: Annotated[int, Meta(ge=1, le=1000)] = 4
    # Lines of ended calls that are kept for gateways that ask again, of all containers together.
    kept_bytes_max: Annotated[int, Meta(ge=2**20, le=2**36)] = 256 * 2**20
    # Open connections; more are answered 503, and twice as many are closed at once.
    connections_max: Annotated[int, Meta(ge=1, le=10_000)] = 400
    # The largest head of a request.
    header_bytes_max: Annotated[int, Meta(ge=1024, le=2**20)] = 32 * 1024
    # How long a client may take for a request's head.
    header_seconds: Annotated[float, Meta(ge=0.1, le=600)] = 10.0
    # How long a client may take for a request's body.
    body_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 120.0
    # How long a client may read nothing of its answer.
    client_stall_seconds: Annotated[float, Meta(ge=0.1, le=600)] = 30.0
    # How long an idle connection stays open.
    keep_alive_seconds: Annotated[int, Meta(ge=1, le=3600)] = 75

    def __post_init__(self) -> None:
        if list(self.memory_tiers_mb) != sorted(set(self.memory_tiers_mb)):
            raise ValueError("memory_tiers_mb must ascend")
        if self.uids < self.containers_max:
            raise ValueError("uids is less than containers_max")
        if self.exec_seconds > self.exec_seconds_max:
            raise ValueError("exec_seconds is greater than exec_seconds_max")
