"""Answers reports of usage and cost from Postgres. Reads only, and every answer has a limit.

It checks no keys: the callers decide who may see what.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from penstock import errors
from penstock.clock import timestamp_of
from penstock.metering.prices import PriceBook, usd
from penstock.metering.reports.difference_rows import difference_answer, difference_statement
from penstock.metering.reports.rows import (
    ATTEMPT_COLUMNS,
    ratio,
    request_answer,
    turn,
    usage_row,
)
from penstock.metering.reports.statement import usage_statement
from penstock.metering.settings import MeteringSettings
from penstock.store import Store, Transaction
from penstock.wire.resources.difference_query import DifferenceQuery
from penstock.wire.resources.usage import RequestAnswer, SessionAnswer, UsageAnswer
from penstock.wire.resources.usage_difference import DifferenceAnswer
from penstock.wire.resources.usage_query import ReportPeriod, SessionQuery, UsageQuery

# A gateway's pool has few connections, and the drain and the mirrors need them too.
AT_ONCE_MAX = 2
# The SQLSTATE of a statement that Postgres ended at `store.statement_seconds`.
_TOO_LONG = "57014"

# A turn is a request: duration and charge are of all attempts, outcome and tokens of the last.
_TURNS = """
with turns as (
    select row_number() over (order by min(asked_at), request) as number,
        request,
        min(asked_at) as asked_at,
        (array_agg(model order by attempt desc))[1] as model,
        (array_agg(outcome order by attempt desc))[1] as outcome,
        (array_agg(prompt_tokens order by attempt desc))[1] as prompt_tokens,
        (array_agg(cached_tokens order by attempt desc))[1] as cached_tokens,
        (array_agg(output_tokens order by attempt desc))[1] as output_tokens,
        (array_agg(first_token_ms order by attempt desc))[1] as first_token_ms,
        sum(duration_ms) as duration_ms,
        sum(charge_nanousd)::bigint as charge_nanousd,
        (array_agg(replica order by attempt desc))[1] as replica,
        (array_agg(session_moved order by attempt desc))[1] as session_moved,
        (array_agg(cache_break order by attempt desc))[1] as cache_break
    from usage_attempts
    where day >= %s and day <= %s and asked_at >= %s and asked_at < %s
        and account = %s and session = %s
    group by request
)
"""
_TURN_ROWS = "select turns.* from turns order by number limit %s"
_TURN_SUMS = """
select count(*),
    avg(prompt_tokens + coalesce(output_tokens, 0))::float8,
    regr_slope(prompt_tokens, number),
    coalesce(sum(cached_tokens), 0)::bigint,
    coalesce(sum(prompt_tokens) filter (where cached_tokens is not null), 0)::bigint,
    coalesce(sum(charge_nanousd), 0)::bigint
from turns
"""
# Account by account: the index of sessions begins with the account.
_OWNERS = """
select owner from unnest(%s::text[]) as owner
where exists (
    select from usage_attempts
    where day >= %s and day <= %s and asked_at >= %s and asked_at < %s
        and account = owner and session = %s
)
"""
_LAST_HOURS = "select key, max(hour) from usage_hours where hour >= %s group by key"


class UsageReports:
    """Gives reports: sums by label, two periods compared, a session's turns, a request's charge."""

    def __init__(self, store: Store, settings: MeteringSettings) -> None:
        self._store = store
        self._days_max = settings.report_days_max
        self._groups_max = settings.report_groups_max
        self._reading_now = 0

    async def usage(self, query: UsageQuery) -> UsageAnswer:
        """Return sums by label and time."""
        check_period(query.since, query.until, self._days_max)
        statement = usage_statement(query)
        async with self.reading() as transaction:
            rows = await transaction.fetch(statement.sql, statement.params)
        return UsageAnswer(
            since=query.since,
            until=query.until,
            by=query.by,
            group_by=tuple(map(str, query.group_by)),
            rows=[usage_row(query, row) for row in rows[: query.limit]],
            has_more=len(rows) > query.limit,
        )

    async def difference(self, query: DifferenceQuery, prices: PriceBook) -> DifferenceAnswer:
        """Return how two periods differ, each change split into its causes."""
        check_period(query.since, query.until, self._days_max)
        statement = difference_statement(query, prices, self._groups_max)
        async with self.reading() as transaction:
            rows = await transaction.fetch(statement.sql, statement.params)
        # In a thread: hundreds of groups take tens of milliseconds, in which control serves others.
        return await asyncio.to_thread(difference_answer, query, prices, rows)

    async def session(self, query: SessionQuery) -> SessionAnswer:
        """Return a session's turns in their order, and how its prompt grows."""
        check_period(query.since, query.until, self._days_max)
        days = (query.since.date(), query.until.date(), query.since, query.until)
        params = (*days, query.account, query.session)
        async with self.reading() as transaction:
            sums = await transaction.fetch_one(_TURNS + _TURN_SUMS, params)
            rows = await transaction.fetch(_TURNS + _TURN_ROWS, (*params, query.limit + 1))
        assert sums is not None, "an aggregate has a row"
        count, tokens, slope, cached, known, cost = sums
        if not count:
            raise errors.NotFound("There are no turns of that session in that period.")
        return SessionAnswer(
            account=query.account,
            session=query.session,
            since=query.since,
            until=query.until,
            turn_count=count,
            tokens_per_turn=tokens,
            prompt_growth_tokens=slope,
            hit_ratio=ratio(cached, known),
            cost_nanousd=cost,
            cost_usd=usd(cost),
            turns=[turn(row) for row in rows[: query.limit]],
            has_more=len(rows) > query.limit,
        )

    async def accounts_of_session(
        self, session: str, period: ReportPeriod, among: Sequence[str]
    ) -> tuple[str, ...]:
        """Return those of some accounts that have turns of a session of that name."""
        check_period(period.since, period.until, self._days_max)
        days = (period.since.date(), period.until.date(), period.since, period.until)
        async with self.reading() as transaction:
            rows = await transaction.fetch(_OWNERS, (list(among), *days, session))
        return tuple(row[0] for row in rows)

    async def keys_last_used(self, since: datetime) -> Mapping[str, datetime]:
        """Return the last hour with a request of each key that has had one since then."""
        async with self.reading() as transaction:
            rows = await transaction.fetch(_LAST_HOURS, (since,))
        return dict(rows)

    async def request(self, id: str, *, account: str | None = None) -> RequestAnswer:
        """Return one request with all its attempts; only of `account`, if given."""
        day = time_of_request(id).date()
        columns = ", ".join(ATTEMPT_COLUMNS)
        sql = (
            f"select {columns} from usage_attempts"  # noqa: S608 - names of our own columns
            " where day = %s and request = %s and (%s::text is null or account = %s)"
            " order by attempt"
        )
        async with self.reading() as transaction:
            rows = await transaction.fetch(sql, (day, id, account, account))
        if not rows:
            raise errors.NotFound(f"There is no usage of a request {id}.")
        return request_answer(rows)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """Take a connection for statements, or refuse if AT_ONCE_MAX reports run already."""
        if self._reading_now >= AT_ONCE_MAX:
            raise errors.Overloaded("Too many usage reports at once.", retry_after_seconds=1)
        self._reading_now += 1
        try:
            async with self._store.statement(prepare=False) as statement:
                yield statement
        except errors.StoreUnavailable as away:
            if getattr(away.__cause__, "sqlstate", None) != _TOO_LONG:
                raise
            raise errors.InvalidRequest(
                "This report takes too long: ask for a shorter period, or for fewer labels."
            ) from None
        finally:
            self._reading_now -= 1


def check_period(since: datetime, until: datetime, days_max: int) -> None:
    """Refuse a period longer than `days_max`."""
    # One hour more, because rounding to whole hours may lengthen a period by that much.
    if until - since > timedelta(days=days_max, hours=1):
        raise errors.InvalidRequest(
            f"The period is longer than {days_max} days (metering.report_days_max).",
            param="since",
        )


def time_of_request(id: str) -> datetime:
    """Return the time in a request's id; NotFound for what is no such id."""
    try:
        if str(uuid.UUID(id)) == id and uuid.UUID(id).version == 7:
            return datetime.fromtimestamp(timestamp_of(id), UTC)
    except (ValueError, OverflowError):
        pass
    raise errors.NotFound("There is no such request: a request id is a UUIDv7.")
