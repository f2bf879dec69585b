"""A job's charge, written by its completion on the row of the attempt that finished it.

The drain has the same attempt without a charge, and may come before, after or at the same time.
Whoever comes first writes the row; here its charge is added exactly once, to the row, to the hourly
sums and to what its money limits have spent.
"""

from collections.abc import Sequence

import msgspec

from penstock.metering.journal_reader import Row
from penstock.metering.ledger import Ledger, days_of
from penstock.metering.queries import QUERIES
from penstock.records.limit import FLEX_HOLDER
from penstock.store import Transaction


class JobCharge(msgspec.Struct, frozen=True):
    """The last attempt of a finished job, as `RequestEnd.charged_line` has it."""

    line: Row
    # The money limits that its charge is booked on.
    limits: tuple[int, ...] = ()

    @property
    def request(self) -> str:
        return self.line[: self.line.index(b"\t")].decode()


async def charge(transaction: Transaction, ledger: Ledger, charges: Sequence[JobCharge]) -> None:
    """Write charges, many at once. Their days must be there: see `Ledger.make_days`.

    Called for jobs that this very transaction has finished, so no two write the same row.
    """
    by_request = {each.request: each for each in charges}
    if not by_request:
        return
    lines = [each.line for each in by_request.values()]
    await ledger.stage(transaction, lines)
    # A statement of its own: the next one sees what a drain committed while this one waited for it.
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
