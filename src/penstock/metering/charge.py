"""Writes the charge of a completed job to the ledger row of the attempt that finished the job.

The drain writes the same attempt without a charge, before, after or at the same time. The first of
the two inserts the row; this module adds the charge exactly once: to the row, to the hourly sums
and to the spend of the job's money limits.
"""

from collections.abc import Sequence

import msgspec

from penstock.metering.journal_reader import Row
from penstock.metering.ledger import Ledger, days_of
from penstock.metering.queries import QUERIES
from penstock.records.limit import FLEX_HOLDER
from penstock.store import Transaction


class JobCharge(msgspec.Struct, frozen=True):
    """The last attempt of a finished job: the line in `RequestEnd.charged_line`."""

    line: Row
    # The money limits whose spend the charge adds to.
    limits: tuple[int, ...] = ()

    @property
    def request(self) -> str:
        return self.line[: self.line.index(b"\t")].decode()


async def charge(transaction: Transaction, ledger: Ledger, charges: Sequence[JobCharge]) -> None:
    """Write many charges at once. `Ledger.make_days` must have made their days' partitions.

    The same transaction must have finished the jobs, so that no two calls charge the same row.
    """
    by_request = {each.request: each for each in charges}
    if not by_request:
        return
    lines = [each.line for each in by_request.values()]
    await ledger.stage(transaction, lines)
    # A separate statement, so that the next one sees rows that a concurrent drain committed.
    inserted = await transaction.fetch(QUERIES["insert_charged"])
    new = [row[0] for row in inserted]
    days = sorted(days_of(lines))
    counted = [(request, limit) for request, each in by_request.items() for limit in each.limits]
    await transaction.execute(
        QUERIES["charge"],
        (
            days,
            days,
            new,
            FLEX_HOLDER,
            [request for request, _ in counted],
            [limit for _, limit in counted],
        ),
    )
