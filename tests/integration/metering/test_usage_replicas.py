"""Usage by replica: hourly sums of their own, which say what the ledger's rows say."""

from datetime import timedelta

import pytest
from tests.integration.cells.usage_rows import HOUR, attempt, new_account, write

from penstock.metering.reports.usage_reports import UsageReports
from penstock.metering.settings import MeteringSettings
from penstock.store import Store
from penstock.wire.resources.usage import UsageRow
from penstock.wire.resources.usage_query import read_usage_query

NOW = (HOUR + timedelta(hours=2)).timestamp()
A, B = new_account(), new_account()


async def report(store: Store, **asked: str) -> list[UsageRow]:
    query = read_usage_query([("since", HOUR.isoformat()), *asked.items()], NOW)
    return (await UsageReports(store, MeteringSettings()).usage(query)).rows


@pytest.fixture
async def rows(store: Store) -> None:
    await write(
        store,
        [
            *(attempt(A, replica="r1", first_token_us=20_000 * i) for i in range(1, 9)),
            attempt(A, replica="r1", outcome="failed", tier="flex", cached_tokens=None),
            attempt(B, replica="r2", session="s", asked_at=HOUR.timestamp() + 3600),
            attempt(B, replica=""),
        ],
    )


@pytest.mark.usefixtures("rows")
async def test_sums_by_replica_are_those_of_the_ledger(store: Store) -> None:
    by_hours = await report(store, group_by="replica,account", by="hour")
    by_rows = await report(store, group_by="replica,account,session", by="hour")
    assert [row.labels["replica"] for row in by_hours] == ["r1", "r2"]

    def facts(row: UsageRow) -> tuple[object, ...]:
        return (
            row.start, row.labels["replica"], row.labels["account"], row.requests, row.failed,
            row.prompt_tokens, row.cached_tokens, row.cost_nanousd, row.saved_nanousd,
            row.hit_ratio, row.first_token_p50_ms,
        )  # fmt: skip

    listed = [row for row in by_rows if row.labels["replica"]]
    assert [facts(row) for row in by_hours] == [facts(row) for row in listed]


@pytest.mark.usefixtures("rows")
async def test_one_replica_is_asked_for(store: Store) -> None:
    [row] = await report(store, group_by="tier", replica="r1", tier="flex")
    assert (row.requests, row.failed) == (1, 1)
    [row] = await report(store, group_by="key", replica="r2")
    assert row.requests == 1
