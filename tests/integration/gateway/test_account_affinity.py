"""How firmly an account's sessions stay: chosen by command, kept in Postgres, heard by gateways."""

import psycopg
import pytest
from tests.integration.cells.commands import Penstock, read

from penstock import errors
from penstock.clock import SystemClock
from penstock.policy import AccountBook, KeyBook, KeyMirror, PolicySettings
from penstock.records.account import Affinity, OnOutage, Role
from penstock.store import Store


async def test_gateways_learn_how_firmly_sessions_stay(store: Store) -> None:
    accounts = AccountBook(store)
    account = await accounts.create("Team A", on_outage=OnOutage.REFUSE)
    assert account.affinity is Affinity.NEAR
    made, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "k")
    assert made.account == account
    changed = await accounts.set_affinity(account.id, Affinity.STRICT)
    assert (changed.affinity, changed.on_outage) == (Affinity.STRICT, OnOutage.REFUSE)
    mirror = KeyMirror(store, SystemClock(), PolicySettings())
    await mirror.load()
    key = mirror.find(secret.encode())
    assert key is not None
    assert key.account == changed == await accounts.find(account.id)
    assert [each.account for each in await KeyBook(store).list()] == [changed]
    assert await accounts.set_blocked(account.id, is_blocked=False) == changed
    with pytest.raises(errors.NotFound):
        await accounts.set_affinity("0" * 32, Affinity.STRICT)


def test_an_account_chooses_by_command(penstock: Penstock) -> None:
    account = read(penstock("account", "create", "Team A", "--json"))
    assert account["affinity"] == "near"
    id = account["id"]
    strict = read(penstock("account", "set", id, "--affinity", "strict", "--json"))
    assert strict == account | {"affinity": "strict"}
    assert "strict" in penstock("account", "list").stdout
    both = penstock("account", "set", id, "--affinity", "near", "--on-outage", "refuse", "--json")
    assert read(both) == account | {"on_outage": "refuse"}
    assert penstock("account", "set", "0" * 32, "--affinity", "strict").exit_code == 4
    nothing = penstock("account", "set", id)
    assert (nothing.exit_code, nothing.stderr) == (
        2,
        "error: Say what to change: --on-outage, --affinity, --flex-weight, --usage-cost or"
        " --storage.\n",
    )
    assert penstock("account", "set", id, "--affinity", "glued").exit_code == 2


def test_only_known_choices_can_be_stored(penstock: Penstock, dsn: str) -> None:
    id = read(penstock("account", "create", "Team A", "--json"))["id"]
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("update accounts set affinity = 'glued' where id = %s", (id,))


def test_days_of_the_ledger_have_what_routing_tells(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("select make_usage_day('2026-11-15')")
        columns = connection.execute(
            "select column_name, is_nullable, column_default from information_schema.columns"
            " where table_name = 'usage_attempts_20261115' and column_name = any(%s)"
            " order by column_name",
            (["cache_break", "cached_expected", "session_moved"],),
        ).fetchall()
    assert columns == [
        ("cache_break", "NO", "''::text"),
        ("cached_expected", "YES", None),
        ("session_moved", "NO", "''::text"),
    ]
