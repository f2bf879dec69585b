"""Renews a keeper's claims on jobs, or puts the jobs back into the queue.

Every change requires the epoch of the keeper's claim. A job that was claimed again since, or has
ended, is not changed, and is missing from the result.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.queue.queries import read_queries
from penstock.records.job import JobId
from penstock.store import Transaction

_QUERIES: Final = read_queries("leases.sql")


class Renewed(msgspec.Struct, frozen=True):
    """Jobs whose claims were renewed, in two sets; the claim on a job in neither is lost."""

    kept: frozenset[JobId]
    # The keeper must stop and finish these; they end as cancelled whatever it passes.
    cancelled: frozenset[JobId]


async def renew(
    tx: Transaction, held: Sequence[tuple[JobId, int]], lease_seconds: float
) -> Renewed:
    """Extend claims to `lease_seconds` from now."""
    rows = await tx.fetch(_QUERIES["renew"], (*_columns(held), lease_seconds))
    cancelled = frozenset(JobId(id) for id, is_cancelling in rows if is_cancelling)
    return Renewed(frozenset(JobId(id) for id, _ in rows) - cancelled, cancelled)


async def give_back(tx: Transaction, held: Sequence[tuple[JobId, int]]) -> set[JobId]:
    """Put jobs back into the queue at their old places, as if never claimed."""
    return await _put_back(tx, held, None)


async def defer(tx: Transaction, held: Sequence[tuple[JobId, int]], until: float) -> set[JobId]:
    """Put jobs back into the queue at their old places, not claimable before `until`."""
    return await _put_back(tx, held, until)


async def _put_back(
    tx: Transaction, held: Sequence[tuple[JobId, int]], until: float | None
) -> set[JobId]:
    rows = await tx.fetch(_QUERIES["put_back"], (*_columns(held), until))
    return {JobId(id) for (id,) in rows}


def _columns(held: Sequence[tuple[JobId, int]]) -> tuple[list[JobId], list[int]]:
    return [job for job, _ in held], [epoch for _, epoch in held]
