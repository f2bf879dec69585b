"""Settings of the job queue: its size limits, retries and retention."""

from typing import Annotated

import msgspec
from msgspec import Meta


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an account may queue, and what becomes of jobs that fail, wait too long or ended."""

    # How many jobs an account may have waiting and running; more are answered 429 (code 3036).
    open_jobs_max: Annotated[int, Meta(ge=1, le=10**7)] = 1_000_000
    # How often a job is begun before it fails for good; what is handed back unbegun is not counted.
    attempts_max: Annotated[int, Meta(ge=1, le=1000)] = 10
    # The pause before a job is tried again; it doubles with each attempt.
    retry_seconds: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    # The longest pause before a job is tried again.
    retry_seconds_max: Annotated[float, Meta(ge=0, le=86_400)] = 120.0
    # Jobs that have waited longer than this may draw on the share that is reserved for old ones.
    flex_wait_target_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    # How many jobs beyond those wanted are looked at for one whose prefix the replica holds.
    look_ahead_jobs: Annotated[int, Meta(ge=0, le=1000)] = 32
    # How many jobs at the queue's front are looked through for old ones, in fair order.
    aged_look_jobs: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    # How many jobs one transaction sweeps up of each kind (lapsed, late, due), or cancels.
    sweep_jobs_max: Annotated[int, Meta(ge=1, le=100_000)] = 5000
    # How far a job's position in its account's queue is counted.
    position_max: Annotated[int, Meta(ge=1, le=10**7)] = 100_000
    # How many jobs one page of a list holds at most.
    page_jobs_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # The time over which the measured rates of a queue are averaged.
    rate_window_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    # How long a job that has ended and its answer are kept.
    results_kept_seconds: Annotated[float, Meta(ge=60, le=31_536_000)] = 7 * 86_400.0
    # How many jobs that are kept no longer are deleted in one transaction.
    delete_jobs_max: Annotated[int, Meta(ge=1, le=100_000)] = 5000
