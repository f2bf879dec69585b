"""Settings of the store: the addresses of Postgres and the object store, and their timeouts."""

from typing import Annotated

import msgspec
from msgspec import Meta


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every wait has an end; it is one of these."""

    # Where Postgres is (a libpq URI or key=value string); empty means the embedded one.
    dsn: str = ""
    # Connections that each process keeps open.
    pool_size_min: Annotated[int, Meta(ge=0, le=1000)] = 1
    # Connections that each process opens at most.
    pool_size_max: Annotated[int, Meta(ge=1, le=1000)] = 4
    # How many transactions may wait for a connection at once; more are refused.
    pool_waiting_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # How long a transaction waits for a free connection.
    acquire_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 2.0
    # How long one attempt to connect may take (libpq counts whole seconds, two at least).
    connect_seconds: Annotated[int, Meta(ge=2, le=60)] = 3
    # How long lost connections are retried with growing pauses before the next use starts afresh.
    reconnect_seconds: Annotated[float, Meta(ge=0.5, le=300)] = 2.0
    # How long the server may work on one statement.
    statement_seconds: Annotated[float, Meta(ge=0.1, le=600)] = 10.0
    # How long a whole transaction may take; then its connection is cut, even if the server hangs.
    transaction_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    # The file with the cell's key, which encrypts all kept content; empty = kept in clear.
    cell_key_file: str = ""
    # How often one who waits for a leader's lock asks again.
    lock_poll_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # How long a leader's check that it still holds its lock may take.
    lock_ping_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 2.0
    # Where large payloads, results and files are: `file:FOLDER` for one host, or `s3://BUCKET/PREFIX`.
    objects_url: Annotated[str, Meta(pattern="^(file:.+|s3://[^/]+.*)$")] = (
        "file:penstock-state/objects"
    )
    # S3's address where it is not Amazon's own, such as `http://127.0.0.1:8333`.
    objects_endpoint: str = ""
    # The bucket's region.
    objects_region: str = "us-east-1"
    # The bucket's access key; empty = the machine's own role, or AWS_ variables.
    objects_access_key: str = ""
    # The secret that belongs to it.
    objects_secret_key: str = ""
    # How long S3 may take for one object or one part of it, retries included.
    objects_seconds: Annotated[float, Meta(ge=0.1, le=600)] = 30.0
    # How much of a large object is read at a time.
    objects_piece_bytes: Annotated[int, Meta(ge=4096, le=2**28)] = 2**20

    def __post_init__(self) -> None:
        if self.pool_size_min > self.pool_size_max:
            raise ValueError("pool_size_min is greater than pool_size_max")
