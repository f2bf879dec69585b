"""Exports of a period: every charge once, costs that add up to the ledger, whole files only."""

import csv
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from tests.integration.cells.usage_rows import HOUR, Attempt, attempt, new_account, write

from penstock import errors
from penstock.metering.reports import export as exporting
from penstock.metering.reports import export_file
from penstock.metering.reports.export import read_charges
from penstock.metering.reports.export_file import opened_file
from penstock.metering.reports.focus import COLUMNS, Charge, focus_row
from penstock.records.price import Price
from penstock.store import Store
from penstock.wire.resources.usage_query import ReportPeriod

PERIOD = ReportPeriod(since=HOUR - timedelta(days=1), until=HOUR + timedelta(days=1))
ACCOUNT = new_account()
ODD = Price(333_333_333, 33_333_337, 777_777_777, 5_000)


def ledger() -> list[Attempt]:
    """Prices whose charges need rounding, unknown counts, and tokens that are not charged."""
    at = HOUR.timestamp()
    return [
        *(
            attempt(ACCOUNT, asked_at=at + i, price=ODD, prompt_tokens=7 * i, cached_tokens=3 * i,
                    output_tokens=i, workflow="w", tier="flex")
            for i in range(20)
        ),
        attempt(ACCOUNT, asked_at=at + 3600, cached_tokens=None),
        attempt(ACCOUNT, asked_at=at - 3600, charge_reason="not_delivered", outcome="failed"),
        attempt(ACCOUNT, prompt_tokens=None, cached_tokens=None, output_tokens=None),
        attempt(new_account(), asked_at=at - 86400),
    ]  # fmt: skip


async def charges(store: Store) -> list[list[Charge]]:
    """The charges of the period, page by page."""
    pages, hour = [], PERIOD.since
    while hour < PERIOD.until:
        first: int | None = 0
        while first is not None:
            page, first = await read_charges(store, hour, first, {ACCOUNT: "Acme"})
            pages += [page] if page else []
        hour += timedelta(hours=1)
    return pages


async def exported(store: Store, path: Path) -> int:
    pages = await charges(store)
    with opened_file(path) as file:
        for page in pages:
            file.write([focus_row(each) for each in page])
    return sum(map(len, pages))


async def test_parquet_adds_up_to_the_ledger_exactly(store: Store, tmp_path: Path) -> None:
    rows = ledger()
    await write(store, rows)
    count = await exported(store, tmp_path / "usage.parquet")
    table = pq.read_table(tmp_path / "usage.parquet")
    assert table.column_names == list(COLUMNS)
    assert table.num_rows == count
    charged = sum(each["charge_nanousd"] for each in rows)
    made = sum((each["prompt_tokens"] or 0) + (each["output_tokens"] or 0) for each in rows)
    assert sum(table["BilledCost"].to_pylist()) == Decimal(charged).scaleb(-9)
    assert sum(table["ConsumedQuantity"].to_pylist()) == made
    for row in table.to_pylist():
        assert row["ListUnitPrice"] * row["PricingQuantity"] == row["ListCost"]
        assert row["BilledCost"] >= 0
        assert (row["ChargePeriodEnd"] - row["ChargePeriodStart"]) == timedelta(hours=1)


async def test_parts_of_a_charge_are_its_kinds(store: Store, tmp_path: Path) -> None:
    await write(store, [attempt(ACCOUNT, workflow="w")])
    await exported(store, tmp_path / "usage.parquet")
    found = {row["SkuId"]: row for row in pq.read_table(tmp_path / "usage.parquet").to_pylist()}
    costs = {sku.rpartition("/")[2]: row["BilledCost"] for sku, row in found.items()}
    assert costs == {
        "input": Decimal("0.000540000"),
        "cached_input": Decimal("0.000015000"),
        "output": Decimal("0.000150000"),
    }
    row = found["@cf/test/chat/input"]
    assert (row["SubAccountId"], row["SubAccountName"]) == (ACCOUNT, "Acme")
    assert json.loads(row["Tags"]) == {"key": "key-1", "tier": "now", "workflow": "w"}
    assert (row["PricingUnit"], row["PricingQuantity"]) == ("1000000 Tokens", Decimal("0.000900"))
    assert row["BillingPeriodStart"].day == row["BillingPeriodEnd"].day == 1
    assert row["x_ChargeReason"] is None


async def test_tokens_that_are_not_charged_say_why(store: Store, tmp_path: Path) -> None:
    await write(store, [attempt(ACCOUNT, charge_reason="not_delivered", outcome="failed")])
    await exported(store, tmp_path / "usage.parquet")
    for row in pq.read_table(tmp_path / "usage.parquet").to_pylist():
        assert (row["BilledCost"], row["x_ChargeReason"]) == (0, "not_delivered")


async def test_csv_has_the_same_cells(store: Store, tmp_path: Path) -> None:
    rows = ledger()
    await write(store, rows)
    await exported(store, tmp_path / "usage.csv")
    await exported(store, tmp_path / "usage.parquet")
    with (tmp_path / "usage.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    other = pq.read_table(tmp_path / "usage.parquet").to_pylist()
    for name in ("BilledCost", "ListCost", "ConsumedQuantity"):
        assert [Decimal(line[name]) for line in lines] == [row[name] for row in other]
    assert "E" not in "".join(line["ListCost"] for line in lines)
    assert lines[0]["ChargePeriodStart"].endswith("Z")


async def test_rows_come_in_pages_and_are_written_in_groups(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "PAGE_ROWS", 3)
    monkeypatch.setattr(export_file, "GROUP_ROWS", 15)
    await write(store, [attempt(ACCOUNT, workflow=f"w{i}") for i in range(10)])
    pages = await charges(store)
    count = sum(map(len, pages))
    assert [len(page) for page in pages] == [9, 9, 9, 3]
    assert (count, len({charge.workflow for page in pages for charge in page})) == (30, 10)
    path = tmp_path / "usage.parquet"
    with opened_file(path) as file:
        for page in pages:
            file.write([focus_row(charge) for charge in page])
    assert pq.ParquetFile(path).metadata.num_row_groups == 2


async def test_empty_period_is_a_file_without_rows(store: Store, tmp_path: Path) -> None:
    assert await exported(store, tmp_path / "usage.parquet") == 0
    assert pq.read_table(tmp_path / "usage.parquet").num_rows == 0


def test_failed_export_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text("old")
    with pytest.raises(errors.StoreUnavailable), opened_file(path):
        raise errors.StoreUnavailable
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
