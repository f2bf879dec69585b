"""Claims the next jobs in fair order, preferring nearby jobs whose prefix a replica has cached.

Two keepers never get the same job: rows that another keeper has locked are skipped. Each model and
priority has a virtual clock, which advances to the highest tag claimed.
"""

from typing import Final, LiteralString

import msgspec

from penstock.queue.queries import read_queries
from penstock.queue.rows import claimed_from, signed
from penstock.queue.settings import QueueSettings
from penstock.records.job import ClaimedJob
from penstock.records.model import ModelId
from penstock.store import Transaction

_QUERIES: Final = read_queries("claiming.sql")
_OF_MODEL: Final = "where model = %s"


class Claim(msgspec.Struct, frozen=True):
    """A keeper's request for jobs."""

    model: ModelId
    count: int
    keeper: str
    lease_seconds: float
    # Openings of conversations that the replica has cached: their next turns are preferred.
    warm: tuple[int, ...] = ()
    # Only jobs that have waited longer than the wait target.
    aged_only: bool = False
    # Only jobs of these accounts; empty: of all.
    accounts: tuple[str, ...] = ()


async def claim(tx: Transaction, want: Claim, settings: QueueSettings) -> list[ClaimedJob]:
    """Claim up to `want.count` jobs; return an empty list when none is waiting."""
    if want.count < 1:
        return []
    take = _claim_aged if want.aged_only else _claim_next
    claimed = await take(tx, want, settings)
    if len(claimed) < want.count and await wake(tx, settings.sweep_jobs_max):
        rest = msgspec.structs.replace(want, count=want.count - len(claimed))
        claimed += await take(tx, rest, settings)
    return claimed


async def wake(tx: Transaction, limit: int) -> int:
    """Make deferred jobs that are due claimable again; return how many."""
    return await tx.execute(_QUERIES["wake"], (limit,))


async def _claim_next(tx: Transaction, want: Claim, settings: QueueSettings) -> list[ClaimedJob]:
    look_ahead = settings.look_ahead_jobs if want.warm else 0
    rows = await tx.fetch(
        _statement("ahead", want),
        (*_of(want), want.count + look_ahead, *_taking(want, settings)),
    )
    return [claimed_from(row) for row in rows]


async def _claim_aged(tx: Transaction, want: Claim, settings: QueueSettings) -> list[ClaimedJob]:
    age = settings.flex_wait_target_seconds
    if await tx.fetch_one(_QUERIES["has_aged"], (want.model, age)) == (False,):
        return []
    look_ahead = settings.look_ahead_jobs if want.warm else 0
    rows = await tx.fetch(
        _statement("ahead_aged", want),
        (
            *_of(want),
            settings.aged_look_jobs,
            age,
            want.count + look_ahead,
            *_taking(want, settings),
        ),
    )
    if not rows:
        rows = await tx.fetch(
            _statement("ahead_oldest", want),
            (*_of(want), age, want.count, *_taking(want, settings)),
        )
    return [claimed_from(row) for row in rows]


def _statement(name: str, want: Claim) -> LiteralString:
    ahead = _QUERIES[name]
    if want.accounts:
        ahead = ahead.replace(_OF_MODEL, _OF_MODEL + " and account = any(%s)", 1)
    return ahead + _QUERIES["take"]


def _of(want: Claim) -> tuple[object, ...]:
    return (want.model, list(want.accounts)) if want.accounts else (want.model,)


def _taking(want: Claim, settings: QueueSettings) -> tuple[object, ...]:
    return (
        [signed(opening) for opening in want.warm],
        settings.flex_wait_target_seconds,
        want.count,
        want.keeper,
        want.lease_seconds,
    )
