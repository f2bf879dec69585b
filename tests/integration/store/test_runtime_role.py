"""What a role of gateways and keepers may not do, each tried; all other tests use what it may."""

import asyncio
import json
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.integration.cells.commands import Penstock
from tests.integration.cells.runtime_dsn import ROLE, runtime_dsn
from tests.integration.contracts.decision_worker import CLOCK, DecisionWorker

from penstock.clock import new_id
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.decision_chain import Keep
from penstock.errors import InvalidRequest
from penstock.store import Store, StoreSettings
from penstock.store.runtime_role import ADMINISTERED, HIDDEN, grant_runtime_role

_ADDED = (
    "insert into decisions select 'long', current_date, {1}, 1, now(), null, '', '', '', '', {0},"
    " 'allow', false, array['create_key'], '', '{{}}', '', sha256(''), sha256('')"
    " from make_decision_day('long', current_date)"
)
_REFUSED = {
    "a key": "insert into keys (id, role, name, secret_sha256, revision)"
    " values ('k', 'operator', 'mine', decode(repeat('00', 32), 'hex'), 1)",
    "a role": "update keys set role = 'operator', account_id = null",
    "a revoked key": "update keys set revoked_at = null",
    "an account": "update accounts set is_blocked = false",
    "a limit": "update limits set amount = 1000000",
    "a new limit": "insert into limits (account) values ('a')",
    "no limit": "delete from limits",
    "a contract": "update contracts set document = ''",
    "a set": "insert into contract_sets (actor, message, schema) values ('', '', 1)",
    "the set in force": "update contract_revision set set_id = 0",
    "a decision": "update decisions set verdict = 'allow'",
    "a decision less": "delete from decisions",
    "no decisions": "truncate decisions",
    "the heads that were sent": "delete from decision_heads",
    "how far the log is verified": "delete from decision_checks",
    "what is broken": "delete from decision_breaks",
    "where chains begin": "insert into decision_starts values ('long', gen_random_uuid(), 9, '')",
    "a deployment": "delete from deployments",
    "days of decisions": "select drop_decision_days('long', current_date)",
    "days of usage": "select drop_usage_days(current_date)",
    "the cell's secret": "update cell set secret = decode(repeat('00', 32), 'hex')",
    "what signs operators in": "update console_secret set secret = decode(repeat('00', 32), 'hex')",
    "reading what signs operators in": "select secret from console_secret",
    "a table": "drop table decisions",
    "a trigger": "alter table decisions disable trigger all",
    "an act of an operator": _ADDED.format("'operator'", "'00000000-0000-0000-0000-000000000001'"),
    "an act under its own holder": _ADDED.format("'operator'", "gen_random_uuid()"),
    "what triggers see": "set session_replication_role = replica",
}


@pytest.mark.parametrize("what", _REFUSED)
def test_a_runtime_role_cannot_change(dsn: str, what: str) -> None:
    with (
        psycopg.connect(runtime_dsn(dsn)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(_REFUSED[what])


async def test_a_runtime_role_adds_decisions_on_a_new_day(dsn: str, tmp_path: Path) -> None:
    store = Store(StoreSettings(dsn=runtime_dsn(dsn)))
    await store.open()
    try:
        worker = DecisionWorker(store, tmp_path)
        worker.decide(3)
        await worker.drain.empty()
        assert len(await DecisionBook(store, CLOCK).days(Keep.LONG)) == 1
    finally:
        await store.close()


def test_every_table_is_administered_appended_or_for_the_runtime(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        tables = {
            row[0]
            for row in connection.execute(
                "select tablename from pg_tables where schemaname = current_schema()"
            )
        }
        writable = {
            row[0]
            for row in connection.execute(
                "select table_name from information_schema.table_privileges"
                " where grantee = %s and privilege_type = 'UPDATE'",
                (ROLE,),
            )
        }
    assert tables >= ADMINISTERED
    assert not writable & ADMINISTERED
    partitions = {name for name in tables if name.startswith(("decisions", "usage_attempts_"))}
    assert tables - ADMINISTERED - HIDDEN - partitions <= writable


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("create role {} login superuser", "it is a superuser"),
        ("create role {} login in role current_user", "is a member of a role"),
        ("create role {} login noinherit in role current_user", "is a member of a role"),
        ("create role {} login in role pg_write_all_data", "is a member of a role"),
        ("create role {} login in role pg_read_all_data", "console_secret in another way"),
        ("create role {} login; grant create on schema public to {}", "revoke create on schema"),
        ("create role {} login; grant update on keys to public", "or everybody may"),
    ],
)
def test_a_role_that_may_more_in_another_way_gets_nothing(dsn: str, made: str, why: str) -> None:
    role = f"powerful_{new_id()}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(made).format(*[sql.Identifier(role)] * made.count("{}")))
        try:
            with pytest.raises(InvalidRequest, match=why):
                asyncio.run(grant_runtime_role(dsn, role))
            known = connection.execute("select from runtime_roles where name = %s", (role,))
            assert known.fetchone() is None
        finally:
            connection.execute("revoke update on keys from public")
            connection.execute(
                sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role))
            )


def test_migrate_grants_a_role_that_is_there_and_names_one_that_is_not(
    penstock: Penstock, dsn: str
) -> None:
    missing = penstock("migrate", "--runtime-role", "nobody_here")
    assert missing.exit_code == 2
    assert "create role nobody_here" in missing.output
    assert penstock("migrate", "--runtime-role", ROLE).exit_code == 0
    with psycopg.connect(make_conninfo(dsn)) as connection:
        named = connection.execute("select name from runtime_roles").fetchall()
    assert named == [(ROLE,)]
    acts = json.loads(penstock("decisions", "--kind", "operator", "--json").output)
    assert [(act["verdict"], act["subjects"], act["reason"]) for act in reversed(acts)] == [
        ("allow", ["grant_runtime_role", "nobody_here"], ""),
        ("deny", ["grant_runtime_role", "nobody_here"], "invalid_request"),
        ("allow", ["grant_runtime_role", ROLE], ""),
    ]
    assert penstock("migrate", "--check", "--runtime-role", ROLE).exit_code == 2
