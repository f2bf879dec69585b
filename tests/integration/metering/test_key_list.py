"""`penstock key list` on a real database: when keys were made, and used last."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.cells.commands import Penstock
from tests.integration.cells.usage_rows import attempt, write
from typer.testing import Result

from penstock.clock import SystemClock
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.store import Store, StoreSettings

NOW = SystemClock().now()
DAY = 86_400.0


@pytest.fixture
async def keys(dsn: str) -> list[str]:
    """Keys that were used just now, 40 days ago, and never; the last is an operator's."""
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        account = await AccountBook(store).create("Team A")
        book = KeyBook(store)
        made = [(await book.create(Role.RUNTIME, account.id, name))[0] for name in ("a", "b")]
        made.append((await book.create(Role.OPERATOR, None, "c"))[0])
        rows = [
            attempt(account.id, key=made[0].id, asked_at=NOW - DAY),
            attempt(account.id, key=made[0].id, asked_at=NOW),
            attempt(account.id, key=made[1].id, asked_at=NOW - 40 * DAY),
        ]
        await write(store, rows)
        return [each.id for each in made]
    finally:
        await store.close()


@pytest.fixture
def listed(keys: list[str], penstock: Penstock) -> tuple[Result, Result]:
    """The list for scripts and for people."""
    assert keys
    return penstock("key", "list", "--json"), penstock("key", "list")


def test_keys_show_when_they_were_made_and_used(
    listed: tuple[Result, Result], keys: list[str]
) -> None:
    found = json.loads(listed[0].stdout)
    assert [each["id"] for each in found] == keys
    hour = datetime.fromtimestamp(NOW, UTC).replace(minute=0, second=0, microsecond=0)
    used = [each["last_used_at"] for each in found]
    assert used == [hour.isoformat().replace("+00:00", "Z"), None, None]
    for each in found:
        made = datetime.fromisoformat(each["created_at"])
        assert abs(made - datetime.fromtimestamp(NOW, UTC)) < timedelta(hours=1)
    lines = listed[1].stdout.splitlines()
    assert f"{hour:%Y-%m-%d %Hh}" in lines[1]
    assert " - " in lines[2]
    assert lines[3].endswith("operator")
