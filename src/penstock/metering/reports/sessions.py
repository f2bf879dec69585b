"""Lists sessions out of the sums of each session and day."""

from datetime import timedelta
from typing import Any, Final

from penstock.metering.prices import usd
from penstock.metering.reports.rows import ratio
from penstock.metering.reports.usage_reports import UsageReports
from penstock.wire.resources.session_list import (
    SessionListQuery,
    SessionOrder,
    SessionRow,
    SessionsAnswer,
)

_ORDERS: Final = {
    SessionOrder.COST: "charge desc",
    SessionOrder.SLOPE: "slope desc nulls last",
    SessionOrder.MOVES: "moves desc",
    SessionOrder.BREAKS: "breaks desc",
    SessionOrder.LAST: "last_at desc",
}
_NO_TIME: Final = timedelta(microseconds=1)
# Days are joined as batches are: the numbers of a day's prompts go on from those before it.
_SESSIONS: Final = """
select account, session, (array_agg(workflow order by day desc))[1],
    (array_agg(model order by day desc))[1], sum(turns)::bigint, min(first_at),
    max(last_at) as last_at,
    (array_agg(prompt_last order by day desc) filter (where prompt_last is not null))[1],
    max(prompt_max),
    (sum(prompts) * sum(sum_xy + before * sum_y) - sum(sum_x + before * prompts) * sum(sum_y))
    / nullif(
        sum(prompts) * sum(sum_xx + 2 * before * sum_x + before * before * prompts)
            - sum(sum_x + before * prompts) ^ 2, 0
    ) as slope,
    sum(cached_tokens)::bigint, sum(prompt_tokens_known)::bigint, sum(output_tokens)::bigint,
    sum(moves)::bigint as moves, sum(cache_breaks)::bigint as breaks,
    sum(charge_nanousd)::bigint as charge
from (
    select *, coalesce(sum(prompts) over (
        partition by account, session order by day rows between unbounded preceding and 1 preceding
    ), 0)::float8 as before
    from session_days where {wanted}
) days
group by account, session
having sum(turns) > 0
order by {order}, account, session limit %s
"""


async def list_sessions(reports: UsageReports, query: SessionListQuery) -> SessionsAnswer:
    """Return the sessions of whole days, in the order that is asked for."""
    first, last = query.period.since.date(), (query.period.until - _NO_TIME).date()
    wanted = " and ".join(("day >= %s", "day <= %s", *(f"{name} = %s" for name in query.filters)))
    sql = _SESSIONS.format(wanted=wanted, order=_ORDERS[query.order])
    async with reports.reading() as transaction:
        rows = await transaction.fetch(sql, (first, last, *query.filters.values(), query.limit + 1))
    return SessionsAnswer(
        first_day=first,
        last_day=last,
        order=query.order,
        sessions=[_row(row) for row in rows[: query.limit]],
        has_more=len(rows) > query.limit,
    )


def _row(row: tuple[Any, ...]) -> SessionRow:
    (
        account, session, workflow, model, turns, first_at, last_at, prompt_last, prompt_max, slope,
        cached, known, output, moves, breaks, charge,
    ) = row  # fmt: skip
    return SessionRow(
        account=account,
        session=session,
        workflow=workflow,
        model=model,
        turns=turns,
        first_at=first_at,
        last_at=last_at,
        prompt_last=prompt_last,
        prompt_max=prompt_max,
        prompt_growth_tokens=slope,
        hit_ratio=ratio(cached, known),
        output_tokens=output,
        moves=moves,
        cache_breaks=breaks,
        cost_nanousd=charge,
        cost_usd=usd(charge),
    )
