"""The journal, its drain, and how long the ledger is kept."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.metering.journal_format import CLOSE_BYTES_MAX


class MeteringSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a gateway writes down before and after each attempt, and what becomes of it."""

    # Where the workers keep their journals; on a local disk that outlives the process.
    journal_folder: str = "penstock-state/journal"
    # The size of one journal file; its space is taken from the disk when the file is made.
    segment_bytes: Annotated[int, Meta(ge=2**16, le=2**30)] = 16 * 2**20
    # All journal files of one worker; when Postgres is away for so long that they are full, new
    # requests are refused (503 `journal_full`).
    journal_bytes_max: Annotated[int, Meta(ge=2**17, le=2**40)] = 2**30
    # Attempts that one worker may have open at a time; more are refused (503 `journal_full`).
    open_max: Annotated[int, Meta(ge=1, le=2**20)] = 16384
    # How often a worker copies its journal into Postgres.
    drain_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # How many attempts are copied in one transaction, at most.
    drain_rows_max: Annotated[int, Meta(ge=1, le=100_000)] = 4000
    # The longest pause between two tries while Postgres does not answer.
    drain_retry_seconds_max: Annotated[float, Meta(ge=0.05, le=600)] = 5.0
    # How long a stopping worker tries to empty its journal; what is left waits for the next one.
    last_drain_seconds: Annotated[float, Meta(ge=0, le=600)] = 5.0
    # How often a worker looks for journals of workers that died on this host.
    adopt_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    # How many values of the workflow label are counted by name for an account; more are `other`.
    workflows_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # How many refusal counters (minute, account, key, reason) a worker holds before Postgres.
    refusals_max: Annotated[int, Meta(ge=1, le=10**6)] = 10_000
    # Days for which the ledger's rows are kept, one for each attempt.
    ledger_days: Annotated[int, Meta(ge=1, le=36500)] = 400
    # Days for which the hourly sums and the refusals are kept.
    rollup_days: Annotated[int, Meta(ge=1, le=36500)] = 1200
    # The longest period of one usage report.
    report_days_max: Annotated[int, Meta(ge=1, le=3660)] = 400
    # How many rows a comparison of two periods has; smaller changes are in one row, `other`.
    report_groups_max: Annotated[int, Meta(ge=1, le=1000)] = 200

    def __post_init__(self) -> None:
        # Half a file must hold the closing records of all open attempts, so that they always fit.
        if self.open_max * CLOSE_BYTES_MAX > self.segment_bytes // 2:
            raise ValueError(
                f"open_max * {CLOSE_BYTES_MAX} must not be more than half of segment_bytes"
            )
        if self.journal_bytes_max < 2 * self.segment_bytes:
            raise ValueError("journal_bytes_max must hold two segments")
