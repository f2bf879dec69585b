"""A job's states and the allowed transitions. A test checks the SQL against them."""

from collections.abc import Mapping
from typing import Final

from penstock.records.job import JobState

TRANSITIONS: Final[Mapping[JobState, frozenset[JobState]]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELLED, JobState.EXPIRED}),
    JobState.RUNNING: frozenset(
        {
            # The job is retried, given back or deferred, or its keeper was lost.
            JobState.QUEUED,
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.EXPIRED,
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.EXPIRED: frozenset(),
}
