"""How a pulled job ended, until that is written to Postgres."""

from enum import StrEnum

import msgspec

from penstock.puller.pulled_job import PulledJob
from penstock.records.job import JobFailure
from penstock.records.request import RequestEnd


class Ending(StrEnum):
    """What is written about an ended job."""

    SUCCEEDED = "succeeded"
    # For good.
    FAILED = "failed"
    RETRY = "retry"
    GIVEN_BACK = "given_back"
    DEFERRED = "deferred"
    CANCELLED = "cancelled"


class EndedJob(msgspec.Struct, frozen=True):
    """A job and its end. An answer comes with the facts of the attempt that made it."""

    job: PulledJob
    ending: Ending
    answer: bytes = b""
    facts: RequestEnd | None = None
    failure: JobFailure | None = None
