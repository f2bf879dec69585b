"""What a keeper may do with jobs it holds without ending them: keep them, or put them back.

Every change asks for the epoch of the keeper's claim. A job that was claimed again since, or has
ended, is not touched, and is missing from what is returned.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.queue.queries import read_queries
from penstock.records.job import JobId
from penstock.store import Transaction

_QUERIES: Final = read_queries("leases.sql")


class Renewed(msgspec.Struct, frozen=True):
    """Jobs whose leases were renewed, in one of two sets; what is in neither is lost."""

    kept: frozenset[JobId]
    # Stop these and finish them: whatever they are finished with, they end as cancelled.
    cancelled: frozenset[JobId]


async def renew(
    tx: Transaction, held: Sequence[tuple[JobId, int]], lease_seconds: float
) -> Renewed:
    """Let leases last from now on."""
    rows = await tx.fetch(_QUERIES["renew"], (*_columns(held), lease_seconds))
    cancelled = frozenset(JobId(id) for id, is_cancelling in rows if is_cancelling)
    return Renewed(frozenset(JobId(id) for id, _ in rows) - cancelled, cancelled)


async def give_back(tx: Transaction, held: Sequence[tuple[JobId, int]]) -> set[JobId]:
    """Back into the queue, at their old places, as if never claimed."""
    return await _put_back(tx, held, None)


async def defer(tx: Transaction, held: Sequence[tuple[JobId, int]], until: float) -> set[JobId]:
    """Back into the queue, at their old places, but not to be claimed before `until`."""
    return await _put_back(tx, held, until)


async def _put_back(
    tx: Transaction, held: Sequence[tuple[JobId, int]], until: float | None
) -> set[JobId]:
    rows = await tx.fetch(_QUERIES["put_back"], (*_columns(held), until))
    return {JobId(id) for (id,) in rows}


def _columns(held: Sequence[tuple[JobId, int]]) -> tuple[list[JobId], list[int]]:
    return [job for job, _ in held], [epoch for _, epoch in held]
