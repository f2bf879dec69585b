"""Whose fault a failure is decides what becomes of the job."""

import pytest

from penstock import errors
from penstock.puller.failure_verdict import Verdict, as_job_failure, is_replica_at_fault, judge


@pytest.mark.parametrize(
    ("failure", "verdict", "is_replicas"),
    [
        (errors.InvalidRequest("too long"), Verdict.FAIL, False),
        (errors.Unauthenticated(), Verdict.FAIL, False),
        (errors.AccountBlocked(), Verdict.FAIL, False),
        (errors.ReplicaUnreachable(), Verdict.RETRY, True),
        (errors.EngineLost(), Verdict.RETRY, True),
        (errors.OutOfCapacity(), Verdict.RETRY, True),
        (errors.EngineFailed(), Verdict.RETRY, False),
        (errors.DeadlinePassed(), Verdict.RETRY, False),
        (errors.InternalError(), Verdict.RETRY, False),
        (errors.NoReplica(), Verdict.DEFER, True),
        (errors.JournalFull(), Verdict.DEFER, False),
        (errors.StoreUnavailable(), Verdict.DEFER, False),
    ],
)
def test_a_refusal_is_final_and_our_own_failures_are_not(
    failure: errors.Error, verdict: Verdict, is_replicas: bool
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
