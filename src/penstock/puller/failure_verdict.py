"""Decides whether a job whose try failed is retried, deferred, or failed for good. Pure."""

from enum import StrEnum

from penstock.errors import (
    EngineLost,
    Error,
    JournalFull,
    NoReplica,
    OutOfCapacity,
    Refused,
    ReplicaUnreachable,
    StoreUnavailable,
    Withheld,
)
from penstock.records.job import JobFailure

# With these errors nothing reached an engine, and the job was not at fault.
_NOT_BEGUN = (JournalFull, NoReplica, StoreUnavailable)
_REPLICA_FAILED = (EngineLost, NoReplica, OutOfCapacity, ReplicaUnreachable)


class FailureVerdict(StrEnum):
    """What to write about the job."""

    FAIL = "fail"
    RETRY = "retry"
    # The job returns to its place in the queue, and cannot be claimed for a moment.
    DEFER = "defer"


def judge(failure: Error) -> FailureVerdict:
    """Say what to write: a caller's fault and a withheld answer fail for good.

    What never began is deferred, and no attempt is counted; all else is tried again.
    """
    if isinstance(failure, Refused | Withheld):
        return FailureVerdict.FAIL
    if isinstance(failure, _NOT_BEGUN):
        return FailureVerdict.DEFER
    return FailureVerdict.RETRY


def is_replica_at_fault(failure: Error) -> bool:
    """Return whether the replica should get no jobs for a while."""
    return isinstance(failure, _REPLICA_FAILED)


def as_job_failure(failure: Error) -> JobFailure:
    """Return the failure that the caller sees if no later try succeeds."""
    return JobFailure(failure.code, failure.message, failure.status)
