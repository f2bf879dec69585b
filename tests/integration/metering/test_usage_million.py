"""A month of very many attempts: a report by workflow reads the hourly sums and nothing else."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from penstock.metering.reports.request_list import list_statement
from penstock.metering.reports.statement import Statement, usage_statement
from penstock.metering.reports.sums import OF_ATTEMPTS
from penstock.metering.reports.usage_reports import UsageReports
from penstock.metering.settings import MeteringSettings
from penstock.store import Store
from penstock.wire.resources.request_list import RequestOrder, RequestQuery
from penstock.wire.resources.usage_query import Label, UsageQuery

# The second with --full: what a report reads depends on the hours, not on the attempts.
ROWS, ROWS_FULL = 240_000, 1_000_000
DAYS = 30
ACCOUNTS, KEYS, MODELS, WORKFLOWS = 20, 1, 1, 5
MONTH = datetime(2026, 11, 1, tzinfo=UTC)
PERIOD: dict[str, Any] = {"since": MONTH, "until": MONTH + timedelta(days=DAYS)}
# Every hour has every combination, so that the bound is what it says and not luck.
FILL = f"""
insert into usage_attempts
select (asked_at at time zone 'UTC')::date,
    (lpad(to_hex((extract(epoch from asked_at) * 1000)::bigint), 12, '0') || '7000a000'
     || lpad(to_hex(i), 12, '0'))::uuid,
    1, 'account-' || i %% {ACCOUNTS}, 'key-' || i / {ACCOUNTS} %% {KEYS},
    'model-' || i / {ACCOUNTS} / {KEYS} %% {MODELS}, 'r', 'session-' || i %% 1000,
    'family-' || i %% 50, 'workflow-' || i / {ACCOUNTS} / {KEYS} / {MODELS} %% {WORKFLOWS}, 'now',
    true, null, '', asked_at, 1, 50 + i %% 1000, 30, 900,
    1000 + i %% 500, i %% 1000, false, 100, 'ok', '',
    600000000, 150000000, 3000000000, 10000, 1000 + i, ''
from generate_series(0, %(rows)s - 1) i
cross join lateral (
    select %(month)s + i * (interval '1 day' * {DAYS} / %(rows)s) as asked_at
) at
"""  # fmt: skip


@pytest.fixture
def rows(full: bool) -> int:
    return ROWS_FULL if full else ROWS


@pytest.fixture
def filled(dsn: str, rows: int) -> Iterator[psycopg.Connection[Any]]:
    """Filling takes nearly all of this test's time. Indexes are made after it, which is faster."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        for day in range(DAYS):
            connection.execute("select make_usage_day(%s)", ((MONTH + timedelta(days=day)).date(),))
        indexes = connection.execute(
            "select indexname, replace(indexdef, ' ON ONLY ', ' ON ') from pg_indexes"
            " where tablename = 'usage_attempts' and indexname <> 'usage_attempts_pkey'"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"drop index {name}")
        connection.execute(FILL, {"month": MONTH, "rows": rows})
        for _, definition in indexes:
            connection.execute(definition)
        sums = ", ".join(OF_ATTEMPTS.values())
        names = ", ".join(OF_ATTEMPTS)
        connection.execute(
            f"insert into usage_hours (hour, account, key, model, tier, workflow, {names})"
            f" select date_trunc('hour', asked_at), account, key, model, tier, workflow, {sums}"
            " from usage_attempts group by 1, 2, 3, 4, 5, 6"
        )
        connection.execute("analyze")
        yield connection


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in plan:
        yield plan
    for child in plan.get("Plans", []):
        yield from scans(child)


def rows_read(scan: dict[str, Any]) -> int:
    removed = scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0)
    return int((scan["Actual Rows"] + removed) * scan["Actual Loops"])


def plan_of(connection: psycopg.Connection[Any], statement: Statement) -> dict[str, Any]:
    found = connection.execute(
        "explain (analyze, format json) " + statement.sql, statement.params
    ).fetchone()
    assert found is not None
    plan: dict[str, Any] = found[0][0]["Plan"]
    return plan


@pytest.mark.timeout(120)
async def test_a_month_by_workflow_reads_hourly_sums_only(
    store: Store, filled: psycopg.Connection[Any], rows: int
) -> None:
    hours = DAYS * 24
    account = {Label.ACCOUNT: "account-3"}
    queries = {
        ACCOUNTS: UsageQuery(**PERIOD, group_by=(Label.WORKFLOW,)),
        1: UsageQuery(**PERIOD, group_by=(Label.WORKFLOW,), filters=account),
    }
    for accounts, query in queries.items():
        read = list(scans(plan_of(filled, usage_statement(query))))
        assert {scan["Relation Name"] for scan in read} == {"usage_hours"}
        groups = accounts * KEYS * MODELS * WORKFLOWS
        assert sum(map(rows_read, read)) <= hours * groups
        print(json.dumps({"rows_read": sum(map(rows_read, read)), "bound": hours * groups}))

    began = time.perf_counter()
    answer = await UsageReports(store, MeteringSettings()).usage(queries[ACCOUNTS])
    print(f"a report over {hours * ACCOUNTS * KEYS * MODELS * WORKFLOWS} hourly sums took"
          f" {time.perf_counter() - began:.2f} s")  # fmt: skip
    assert len(answer.rows) == WORKFLOWS
    assert sum(row.requests for row in answer.rows) == rows
    assert sum(row.cost_nanousd for row in answer.rows) == sum(1000 + i for i in range(rows))

    # One day's sessions are in one day's partition, and no other is looked at.
    day = UsageQuery(
        since=MONTH, until=MONTH + timedelta(hours=23), group_by=(Label.SESSION,), filters=account
    )
    touched = {scan["Relation Name"] for scan in scans(plan_of(filled, usage_statement(day)))}
    assert touched == {"usage_attempts_20261101"}

    # Lists begin at the top of an index of each day, and read no day from end to end.
    for order in (RequestOrder.SLOW, RequestOrder.DEAR, RequestOrder.LAST):
        for only_failed in (False, True):
            asked = RequestQuery(**PERIOD, order=order, only_failed=only_failed, limit=50)
            read = list(scans(plan_of(filled, list_statement(asked))))
            assert not [scan for scan in read if scan["Node Type"] == "Seq Scan"], (order, read)
            assert sum(map(rows_read, read)) <= 2 * (asked.limit + DAYS), order
