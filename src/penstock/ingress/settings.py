"""Settings of the HTTP server: addresses, and limits on clients."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.intake.settings import IntakeSettings


class IngressSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    # All bodies that one worker holds at a time, from their first byte until they are read.
    bodies_bytes_max: Annotated[int, Meta(ge=1024, le=2**40)] = 1024 * 2**20
    # The share of `bodies_bytes_max` for requests whose key the worker does not know (yet).
    bodies_share_unknown_max: Annotated[float, Meta(gt=0, le=1)] = 1 / 16
    # The share of `bodies_bytes_max` for one account; one body of `body_bytes_max` always fits.
    bodies_share_per_account_max: Annotated[float, Meta(gt=0, le=1)] = 0.25
    # The largest headers of a request, all together.
    header_bytes_max: Annotated[int, Meta(ge=1024, le=2**20)] = 64 * 1024
    # How long a client may take to send its headers.
    header_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    # The window over which a body's rate is measured, again and again until the body is whole.
    body_grace_seconds: Annotated[float, Meta(gt=0, le=600)] = 5.0
    # The least rate at which a body must come in each window of `body_grace_seconds`.
    body_bytes_per_second_min: Annotated[int, Meta(ge=0, le=2**30)] = 1024
    # How long a body may take in all, whatever its rate; uploads of files too.
    body_seconds_max: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
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
    # Whether requests may be queued for later: `queueRequest`, `service_tier: "flex"`, `Prefer`.
    flex: bool = True
    # The largest body of a request that is queued by `queueRequest`.
    queued_bytes_max: Annotated[int, Meta(ge=1024, le=2**31)] = 10 * 10**6
    # How many requests one `queueRequest` may carry.
    queued_requests_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # How long a job may take from its submission before it expires.
    job_seconds_max: Annotated[int, Meta(ge=1, le=30 * 86400)] = 86_400
    # How many requests of one worker may wait for their job's end; more are answered 503.
    job_waits_max: Annotated[int, Meta(ge=1, le=10**6)] = 10_000
    # How many of these may be one account's; more are answered 429.
    job_waits_per_account_max: Annotated[int, Meta(ge=1, le=10**6)] = 2000
    # How often a worker asks Postgres which of the jobs that are waited for have ended.
    job_poll_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.2
    # The longest wait that `Prefer: wait=N` gets, in seconds.
    prefer_wait_seconds_max: Annotated[int, Meta(ge=0, le=86_400)] = 600
    # Whether `GET /` says, to anybody, that this runs and which models every account may use.
    front_page: bool = True
    # Origins that browsers may call from; `["*"]` = any.
    cors_origins: tuple[str, ...] = ()
    # The largest file of `/v1/files`.
    file_bytes_max: Annotated[int, Meta(ge=1024, le=2**40)] = 200 * 2**20
    # Files that one worker takes in at a time; more are answered 503.
    uploads_max: Annotated[int, Meta(ge=1, le=10_000)] = 16
    # How many of these may be one account's; more are answered 429.
    uploads_per_account_max: Annotated[int, Meta(ge=1, le=10_000)] = 4
    # How long files are kept, unless their owner says otherwise.
    files_keep_days: Annotated[int, Meta(ge=1, le=3650)] = 30
    # Lines that the input file of a batch may have.
    batch_lines_max: Annotated[int, Meta(ge=1, le=10**7)] = 50_000
    # The longest line of a batch file; a longer one fails by itself.
    batch_line_bytes_max: Annotated[int, Meta(ge=1024, le=2**31)] = 32 * 2**20
    # Jobs of a batch that are submitted together.
    batch_jobs_at_once: Annotated[int, Meta(ge=1, le=10_000)] = 500
    # How often a worker looks for a batch to read in or to finish.
    batch_poll_seconds: Annotated[float, Meta(ge=0.05, le=600)] = 1.0
    # How long a worker may be silent about its batch before another goes on with it.
    batch_lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    # How long a batch waits when its account's queue or budget is full, before it goes on.
    batch_pause_seconds: Annotated[float, Meta(ge=0.05, le=3600)] = 10.0

    @property
    def intake(self) -> IntakeSettings:
        """Return the settings that reading a request needs."""
        return IntakeSettings(self.media_hosts, self.prompt_bytes_per_token, self.flex)
