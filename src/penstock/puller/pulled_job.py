"""A job that this keeper has claimed, from the claim to the last word about it."""

from enum import StrEnum
from typing import Protocol

from penstock.records.job import ClaimedJob


class StopReason(StrEnum):
    """Why a job that runs is stopped by us."""

    # It cannot have begun, and its slot is wanted now; or this keeper ends.
    GIVE_BACK = "give_back"
    # Its caller wants it no more.
    CANCELLED = "cancelled"
    # It is another keeper's by now: nothing may be written about it.
    LOST = "lost"


class Run(Protocol):
    """What can be stopped. A task satisfies it."""

    def cancel(self) -> bool: ...


class PulledJob:
    """Times are monotonic. Before `lease_until` it is no other keeper's."""

    __slots__ = (
        "begins_at", "claimed", "is_ending", "is_reserved", "lease_until", "stop", "task",
    )  # fmt: skip

    def __init__(self, claimed: ClaimedJob, lease_until: float, *, is_reserved: bool) -> None:
        self.claimed = claimed
        self.lease_until = lease_until
        # Whether it runs on the share that is reserved for jobs that have waited long.
        self.is_reserved = is_reserved
        # Until then it cannot have begun to answer.
        self.begins_at = 0.0
        # It has left the engine, and how it ended is being written.
        self.is_ending = False
        self.stop: StopReason | None = None
        self.task: Run | None = None

    @property
    def tokens(self) -> int:
        """Of its prompt, at most."""
        return max(1, self.claimed.ticket.prompt_tokens_estimate)

    def end(self, why: StopReason) -> None:
        """Stop the job at the engine. The first reason stands."""
        if self.stop is None and self.task is not None and not self.is_ending:
            self.stop = why
            self.task.cancel()
