"""Counts the requests under each contract, out of the hourly sums."""

from typing import Final

from penstock.metering.reports.usage_reports import UsageReports
from penstock.wire.resources.usage_query import ReportPeriod

_REQUESTS: Final = """
select contract, sum(requests)::bigint from workflow_hours
where hour >= %s and hour < %s and (%s::text is null or account = %s)
    and (%s::text is null or workflow = %s)
group by 1 order by 2 desc, 1 limit 1000
"""


async def requests_by_contract(
    reports: UsageReports, period: ReportPeriod, account: str | None, workflow: str | None
) -> dict[str, int]:
    """Return how many requests ran under each contract; "" is none."""
    values = (period.since, period.until, account, account, workflow, workflow)
    async with reports.reading() as transaction:
        return dict(await transaction.fetch(_REQUESTS, values))
