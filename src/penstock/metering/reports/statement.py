"""Builds the one SQL statement that answers a usage query. Pure: it runs nothing.

Hourly sums answer every query without a session and a prompt family; a replica's have sums of their
own. The others read the ledger's rows, only in the partitions of the queried days.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.metering.reports.sums import NAMES, OF_ATTEMPTS, OF_HOURS
from penstock.wire.resources.usage_query import Label, UsageQuery

# A refusal is counted before any other label of its request is known.
_REFUSAL_LABELS: Final = frozenset({Label.ACCOUNT, Label.KEY})


class Statement(msgspec.Struct, frozen=True):
    """SQL with its parameters."""

    sql: str
    params: tuple[object, ...]


def usage_statement(query: UsageQuery) -> Statement:
    """Select (start, labels, sums by NAMES, refusals), highest charge first within each start.

    `start` is a constant if the query has no step. The statement selects one row more than the
    limit, which shows that there are more.
    """
    used = _used(query)
    shared = ", ".join(["start", *query.group_by])
    source, refusals, params = f"({used.sql}) used", "null", used.params
    if knows_refusals(query):
        refused = _refused(query)
        source += f" full join ({refused.sql}) refused using ({shared})"
        refusals, params = "refusals", used.params + refused.params
    columns = ", ".join([shared, *NAMES, refusals])
    names = (f'{label} collate "C"' for label in query.group_by)
    order = ", ".join(["start", "coalesce(charge_nanousd, 0) desc", *names])
    sql = " ".join(["select", columns, "from", source, "order by", order, "limit %s"])
    return Statement(sql, (*params, query.limit + 1))


def knows_refusals(query: UsageQuery) -> bool:
    """Return whether refusals are known by the labels of the query."""
    return query.labels <= _REFUSAL_LABELS


def _used(query: UsageQuery) -> Statement:
    if not query.needs_attempts:
        table = "replica_hours" if Label.REPLICA in query.labels else "usage_hours"
        return _grouped(query, table, "hour", _named(OF_HOURS))
    return _grouped(query, "usage_attempts", "asked_at", _named(OF_ATTEMPTS))


def _refused(query: UsageQuery) -> Statement:
    each = _grouped(query, "usage_refusals", "minute", "reason, sum(count)::bigint as refused")
    keys = ", ".join(["start", *query.group_by])
    source = f"({each.sql}, reason) each"
    columns = f"{keys}, jsonb_object_agg(reason, refused) as refusals"
    sql = " ".join(["select", columns, "from", source, "group by", keys])
    return Statement(sql, each.params)


def _grouped(query: UsageQuery, table: str, time: str, sums: str) -> Statement:
    """Select sums by start and labels from one table; `time` is its column of the time."""
    start = f"date_trunc('{query.by}', {time}, 'UTC')" if query.by else "timestamptz 'epoch'"
    keys = [f"{start} as start", *query.group_by]
    wanted = [f"{time} >= %s", f"{time} < %s", *(f"{label} = %s" for label in query.filters)]
    params: tuple[object, ...] = (query.since, query.until, *query.filters.values())
    if table == "usage_attempts":
        # `day` repeats the bounds of `asked_at`, so that the planner leaves out other partitions.
        wanted += ["day >= %s", "day <= %s"]
        params += (query.since.date(), query.until.date())
    places = ", ".join(str(place) for place in range(1, len(keys) + 1))
    columns, where = ", ".join([*keys, sums]), " and ".join(wanted)
    sql = " ".join(["select", columns, "from", table, "where", where, "group by", places])
    return Statement(sql, params)


def _named(sums: Mapping[str, str]) -> str:
    return ", ".join(f"{sql} as {name}" for name, sql in sums.items())
