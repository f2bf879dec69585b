"""Whose fault a failure is decides what becomes of the job."""

import pytest

from penstock import errors
from penstock.puller.failure_verdict import (
    FailureVerdict,
    as_job_failure,
    is_replica_at_fault,
    judge,
)


@pytest.mark.parametrize(
    ("failure", "verdict", "is_replicas"),
    [
        (errors.InvalidRequest("too long"), FailureVerdict.FAIL, False),
        (errors.Unauthenticated(), FailureVerdict.FAIL, False),
        (errors.AccountBlocked(), FailureVerdict.FAIL, False),
        (errors.ReplicaUnreachable(), FailureVerdict.RETRY, True),
        (errors.EngineLost(), FailureVerdict.RETRY, True),
        (errors.OutOfCapacity(), FailureVerdict.RETRY, True),
        (errors.EngineFailed(), FailureVerdict.RETRY, False),
        (errors.DeadlinePassed(), FailureVerdict.RETRY, False),
        (errors.InternalError(), FailureVerdict.RETRY, False),
        (errors.NoReplica(), FailureVerdict.DEFER, True),
        (errors.JournalFull(), FailureVerdict.DEFER, False),
        (errors.StoreUnavailable(), FailureVerdict.DEFER, False),
    ],
)
def test_a_refusal_is_final_and_our_own_failures_are_not(
    failure: errors.Error, verdict: FailureVerdict, is_replicas: bool
) -> None:
    assert judge(failure) is verdict
    assert is_replica_at_fault(failure) is is_replicas


def test_a_caller_is_told_the_errors_code_message_and_status() -> None:
    told = as_job_failure(errors.InvalidRequest("The prompt is too long."))
    assert (told.code, told.message, told.status) == (
        "invalid_request",
        "The prompt is too long.",
        400,
    )
