"""Reports how steady sessions are, by account and workflow, out of the hourly sums."""

from datetime import datetime, timedelta
from typing import Any, Final

from penstock.metering.reports.quantiles import quantile_ms
from penstock.metering.reports.rows import ratio
from penstock.metering.reports.sums import OF_HOURS
from penstock.metering.reports.usage_reports import UsageReports
from penstock.wire.resources.session_list import (
    SessionListQuery,
    StabilityAnswer,
    StabilityRow,
)

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
# Up to so long a period has a point for each hour, else one for each day.
_BY_HOUR_MAX: Final = timedelta(days=3)
_SUMS: Final = (
    "session_turns", "moved_load", "moved_drain", "moved_lost", "session_retries",
    "session_retries_stayed", "cache_breaks", "prompt_tokens_compared", "cached_tokens_expected",
    "cached_tokens_counted",
)  # fmt: skip
_USED: Final = ("requests", "retried", "retried_ok", "first_token")


async def report_stability(reports: UsageReports, query: SessionListQuery) -> StabilityAnswer:
    """Return workflows, those with most turns of sessions first."""
    period = query.period
    step = _HOUR if period.until - period.since <= _BY_HOUR_MAX else _DAY
    wanted = " and ".join(("hour >= %s", "hour < %s", *(f"{name} = %s" for name in query.filters)))
    params = (period.since, period.until, *query.filters.values())
    steps = f"date_bin('{int(step.total_seconds())} seconds', hour, %s)"
    used = ", ".join(f"{OF_HOURS[name]} as {name}" for name in _USED)
    steady = ", ".join(f"sum({name})::bigint as {name}" for name in _SUMS)
    keys = "account, workflow"
    sql = f"""
        select {keys}, {", ".join(_USED)}, {", ".join(_SUMS)}, at, hit
        from (select {keys}, {used} from usage_hours where {wanted} group by 1, 2) used
        left join (
            select {keys}, {steady} from workflow_hours where {wanted} group by 1, 2
        ) steady using ({keys})
        left join (
            select {keys}, array_agg(start order by start) as at,
                array_agg(hit order by start) as hit
            from (
                select {keys}, {steps} as start,
                    sum(cached_tokens) / nullif(sum(prompt_tokens_known), 0) as hit
                from usage_hours where {wanted} group by 1, 2, 3
            ) each group by 1, 2
        ) hits using ({keys})
        order by coalesce(session_turns, 0) desc, requests desc, {keys} limit %s
    """  # noqa: S608 - our own columns
    values = (*params, *params, period.since, *params, query.limit + 1)
    async with reports.reading() as transaction:
        rows = await transaction.fetch(sql, values)
    count = -(-(period.until - period.since) // step)
    starts = [period.since + step * number for number in range(count)]
    return StabilityAnswer(
        since=period.since,
        until=period.until,
        step_seconds=int(step.total_seconds()),
        rows=[_row(row, starts) for row in rows[: query.limit]],
        has_more=len(rows) > query.limit,
    )


def _row(row: tuple[Any, ...], starts: list[datetime]) -> StabilityRow:
    account, workflow, requests, retried, retried_ok, histogram, *sums, at, hit = row
    # Hours before the sums began have none.
    known = {name: value or 0 for name, value in zip(_SUMS, sums, strict=True)}
    moved = known["moved_load"] + known["moved_drain"] + known["moved_lost"]
    turns, compared = known["session_turns"], known["prompt_tokens_compared"]
    by_start = dict(zip(at, hit, strict=True))
    hits = [by_start.get(start) for start in starts]
    return StabilityRow(
        account=account,
        workflow=workflow,
        requests=requests,
        session_turns=turns,
        moved_load=known["moved_load"],
        moved_drain=known["moved_drain"],
        moved_lost=known["moved_lost"],
        stayed=ratio(max(0, turns - moved), turns),
        retried=retried,
        retry_success=ratio(retried_ok, retried),
        retries_stayed=ratio(known["session_retries_stayed"], known["session_retries"]),
        cache_breaks=known["cache_breaks"],
        hit_expected=ratio(known["cached_tokens_expected"], compared),
        hit_counted=ratio(known["cached_tokens_counted"], compared),
        first_token_p50_ms=quantile_ms(histogram, 0.5),
        first_token_p95_ms=quantile_ms(histogram, 0.95),
        hits=[None if each is None else float(each) for each in hits],
    )
