"""What becomes of a job whose try failed: tried again, put off, or failed for good. Pure."""

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
)
from penstock.records.job import JobFailure

# Nothing reached an engine, and it was no fault of the job's.
_NOT_BEGUN = (JournalFull, NoReplica, StoreUnavailable)
_REPLICA_FAILED = (EngineLost, NoReplica, OutOfCapacity, ReplicaUnreachable)


class FailureVerdict(StrEnum):
    """What to write about the job."""

    FAIL = "fail"
    RETRY = "retry"
    # Back to its place in the queue, and not to be claimed for a moment.
    DEFER = "defer"


def judge(failure: Error) -> FailureVerdict:
    """The caller's fault is final; ours is tried again, and is no attempt if nothing began."""
    if isinstance(failure, Refused):
        return FailureVerdict.FAIL
    if isinstance(failure, _NOT_BEGUN):
        return FailureVerdict.DEFER
    return FailureVerdict.RETRY


def is_replica_at_fault(failure: Error) -> bool:
    """Whether the replica had better get no jobs for a while."""
    return isinstance(failure, _REPLICA_FAILED)


def as_job_failure(failure: Error) -> JobFailure:
    """What its caller is told, if it stays with this."""
    return JobFailure(failure.code, failure.message, failure.status)
