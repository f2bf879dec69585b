"""Which rows of the ledger a period covers: its days' partitions, and the first request id."""

from datetime import UTC, date, datetime
from uuid import UUID

from penstock.clock import first_id_at


def ledger_period(since: float, now: float) -> tuple[list[date], UUID]:
    """Return the days between two Unix times that are less than a day apart, and the first id."""
    days = sorted({datetime.fromtimestamp(at, UTC).date() for at in (since, now)})
    return days, first_id_at(since)
