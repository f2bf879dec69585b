"""Lists requests out of the ledger's rows: the slowest, the dearest, the failed, the latest.

Ids of requests begin with their time, so that a period is a range of the ledger's primary key.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec

from penstock.clock import first_id_at
from penstock.metering.reports.cache_findings import AS_EXPECTED
from penstock.metering.reports.statement import Statement
from penstock.metering.reports.usage_reports import UsageReports
from penstock.wire.resources.request_list import (
    RequestOrder,
    RequestQuery,
    RequestRow,
    RequestsAnswer,
)

_COLUMNS: Final = tuple(name for name in RequestRow.__struct_fields__ if name != "why")
# What the caller of a stream waits for.
_WAIT: Final = "waited_ms + coalesce(first_token_ms, 0)"
_ORDERS: Final = {
    # A request's day is that of its id: in this order each day's primary key is read backwards.
    RequestOrder.LAST: "day desc, request desc, attempt desc",
    RequestOrder.SLOW: f"{_WAIT} desc, request desc",
    RequestOrder.DEAR: "charge_nanousd desc, request desc",
    RequestOrder.DRAINED: "drained_at, request, attempt",
}
# A drain that began before the last look may commit after it.
_DRAIN_LATE: Final = timedelta(seconds=10)
_LONG_WAIT_MS: Final = 1000.0
_MOVED: Final = {
    "load": "its session's replica was busy",
    "drain": "its session's replica was drained",
    "lost": "its session's replica was lost",
}


def list_statement(query: RequestQuery) -> Statement:
    """Select attempts in order; one more than the limit shows that there are more."""
    conditions = ["day >= %s", "day <= %s"]
    params: list[object] = [query.since.date(), query.until.date()]
    if query.order is RequestOrder.DRAINED:
        since = query.drained_after or query.since
        # The second page begins where the first ended, and only the first looks back.
        conditions.append("drained_at >= %s")
        params.append(since if query.after else since - _DRAIN_LATE)
        if query.after:
            conditions.append("(drained_at, request, attempt) > (%s, %s, %s)")
            params += [since, *query.after]
    else:
        conditions += ["request >= %s", "request < %s"]
        params += [first_id_at(query.since.timestamp()), first_id_at(query.until.timestamp())]
    for name, value in query.filters.items():
        conditions.append(f"{name} = %s")
        params.append(value)
    if query.only_failed:
        conditions.append("outcome in ('failed', 'interrupted')")
    sql = " ".join(
        (
            f"select {', '.join(_COLUMNS)} from usage_attempts",  # noqa: S608 - our own columns
            f"where {' and '.join(conditions)} order by {_ORDERS[query.order]} limit %s",
        )
    )
    return Statement(sql, (*params, query.limit + 1))


async def list_requests(reports: UsageReports, query: RequestQuery) -> RequestsAnswer:
    """Return attempts, in the order that is asked for."""
    statement = list_statement(query)
    async with reports.reading() as transaction:
        rows = await transaction.fetch(statement.sql, statement.params)
    return RequestsAnswer(
        since=query.since,
        until=query.until,
        order=query.order,
        requests=[_row(row) for row in rows[: query.limit]],
        has_more=len(rows) > query.limit,
    )


def why(row: RequestRow) -> tuple[str, ...]:
    """Return what stands out about an attempt, in a few words each."""
    return tuple(_reasons(row))


def _reasons(row: RequestRow) -> Iterator[str]:
    if row.error:
        yield row.error
    if row.waited_ms >= _LONG_WAIT_MS:
        yield f"waited {row.waited_ms / 1000:.1f} s for a replica"
    if row.attempt > 1:
        yield f"attempt {row.attempt}"
    if row.cache_break:
        yield f"cache break: {row.cache_break}"
    if row.session_moved in _MOVED:
        yield _MOVED[row.session_moved]
    cached, expected = row.cached_tokens, row.cached_expected
    if cached is not None and expected and cached < expected * AS_EXPECTED:
        yield "less was cached than expected"


def _row(columns: tuple[Any, ...]) -> RequestRow:
    known = dict(zip(_COLUMNS, columns, strict=True))
    row = RequestRow(**{**known, "request": str(known["request"])})
    return msgspec.structs.replace(row, why=why(row))
