"""A job that this keeper has claimed, from the claim until its end is written."""

from enum import StrEnum
from typing import Protocol

from penstock.records.job import ClaimedJob


class StopReason(StrEnum):
    """Why this keeper stops a running job."""

    # The job cannot have begun and must give way, or this keeper ends.
    GIVE_BACK = "give_back"
    # The caller cancelled the job.
    CANCELLED = "cancelled"
    # The claim is lost: nothing may be written about the job.
    LOST = "lost"


class Run(Protocol):
    """A run that can be cancelled. A task satisfies it."""

    def cancel(self) -> bool: ...


class PulledJob:
    """A claimed job. Times are monotonic. Before `lease_until` no other keeper can claim it."""

    __slots__ = (
        "begins_at", "claimed", "is_ending", "is_reserved", "lease_until", "stop", "task",
    )  # fmt: skip

    def __init__(self, claimed: ClaimedJob, lease_until: float, *, is_reserved: bool) -> None:
        self.claimed = claimed
        self.lease_until = lease_until
        # Whether the job runs on the share that is reserved for jobs that have waited long.
        self.is_reserved = is_reserved
        # Before this time the job cannot have begun to answer.
        self.begins_at = 0.0
        # The job has left the engine, and its end is being written.
        self.is_ending = False
        self.stop: StopReason | None = None
        self.task: Run | None = None

    @property
    def tokens(self) -> int:
        """The estimated most tokens of the job's prompt."""
        return max(1, self.claimed.ticket.prompt_tokens_estimate)

    def end(self, why: StopReason) -> None:
        """Stop the job at the engine. The first reason stands."""
        if self.stop is None and self.task is not None and not self.is_ending:
            self.stop = why
            self.task.cancel()
