"""Grants a Postgres role what gateways and keepers need, and no more.

Such a role reads all but what signs operators in, and writes what requests, jobs and replicas
leave behind. It changes no account, key, limit, contract or deployment, and it adds decisions
without changing any. Control, and commands that go to the database themselves, connect as the owner
of the tables.
"""

from typing import Final, LiteralString

import psycopg
from psycopg import sql

from penstock.errors import InvalidRequest
from penstock.store.connection import Connection, complete_dsn, naming_failures

_CONNECT_SECONDS: Final = 10
# What only operators, control and migrations write.
ADMINISTERED: Final = frozenset((
    "accounts", "cell", "cell_defaults", "contract_revision", "contract_sets", "contracts",
    "decision_breaks", "decision_checks", "decision_heads", "decision_rereads", "decision_starts",
    "deployment_revisions", "deployments", "deployments_revision", "flex_controls", "keys",
    "limits", "limits_revision", "policy_revision", "runtime_roles", "schema_migrations",
))  # fmt: skip
# Rows are added, and never changed.
APPENDED: Final = frozenset(("decisions",))
# Not even read: with it gateways could sign in to the console as any operator.
HIDDEN: Final = frozenset(("console_secret",))

# Without partitions: a statement on the whole table needs rights on that alone.
_TABLES: Final = """
select c.relname from pg_class c
where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
    and not c.relispartition
order by 1
"""
_ROLES: Final = """
select name from runtime_roles where exists (select from pg_roles where rolname = name) order by 1
"""
_ALL: Final = "select, insert, update, delete"
# Rights that the role has in other ways than by the grants here: by being a superuser or a member
# of a role (it could `set role`, too), or as everybody.
_TOO_MUCH: Final = """
select c.relname from pg_class c
where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
    and (
        pg_has_role(%(role)s, c.relowner, 'member')
        or (c.relname = any(%(administered)s)
            and has_table_privilege(%(role)s, c.oid, 'insert, update, delete, truncate, trigger'))
        or (c.relname = any(%(appended)s)
            and has_table_privilege(%(role)s, c.oid, 'update, delete, truncate, trigger'))
        or (c.relname = any(%(hidden)s)
            and has_table_privilege(
                %(role)s, c.oid, 'select, insert, update, delete, truncate, trigger'
            ))
    )
order by 1 limit 1
"""
_CREATES: Final = "select has_schema_privilege(%s, current_schema(), 'create'), current_schema()"


async def grant_runtime_role(dsn: str, role: str) -> None:
    """Grant a role of this Postgres the rights of gateways and keepers, also after migrations."""
    with naming_failures():
        async with await _connected(dsn) as connection, connection.transaction():
            found = await connection.execute("select from pg_roles where rolname = %s", (role,))
            if await found.fetchone() is None:
                raise InvalidRequest(
                    f"Postgres has no role {role}. As its administrator, run:"
                    f" create role {role} login password '…'",
                    param="--runtime-role",
                )
            await connection.execute(
                "insert into runtime_roles (name) values (%s) on conflict do nothing", (role,)
            )
            await _grant(connection, role)
            await _refuse_powerful(connection, role)


async def grant_again(dsn: str) -> None:
    """Grant every role that was given the rights before what has come since."""
    with naming_failures():
        async with await _connected(dsn) as connection, connection.transaction():
            roles = await connection.execute(_ROLES)
            for (role,) in await roles.fetchall():
                await _grant(connection, role)


async def _refuse_powerful(connection: Connection, role: str) -> None:
    """Refuse a role that may change what is administered in a way that no grant here takes back."""
    tables = {"administered": sorted(ADMINISTERED), "appended": sorted(APPENDED)}
    tables["hidden"] = sorted(HIDDEN)
    found = await connection.execute(_TOO_MUCH, {"role": role, **tables})
    row = await found.fetchone()
    if row is not None:
        raise InvalidRequest(
            f"The role {role} may change or read {row[0]} in another way: it is a superuser, owns"
            " tables, or is a member of a role that may, or everybody may. Make a role of its own"
            " for gateways and keepers.",
            param="--runtime-role",
        )
    created = await (await connection.execute(_CREATES, (role,))).fetchone()
    if created is not None and created[0]:
        raise InvalidRequest(
            f"The role {role} may make tables and functions beside the cell's. Run:"
            f" revoke create on schema {created[1]} from public, {role}",
            param="--runtime-role",
        )


async def _grant(connection: Connection, role: str) -> None:
    name = sql.Identifier(role)
    schema = await connection.execute("select current_schema()")
    row = await schema.fetchone()
    assert row is not None, "a query without a table has one row"
    await connection.execute(
        sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(row[0]), name)
    )
    tables = await connection.execute(_TABLES)
    for (table,) in await tables.fetchall():
        of_table = sql.Identifier(table)
        await connection.execute(sql.SQL("revoke all on {} from {}").format(of_table, name))
        if table not in HIDDEN:
            await connection.execute(
                sql.SQL("grant {} on {} to {}").format(sql.SQL(_rights_on(table)), of_table, name)
            )


def _rights_on(table: str) -> LiteralString:
    if table in ADMINISTERED:
        return "select"
    return "select, insert" if table in APPENDED else _ALL


async def _connected(dsn: str) -> Connection:
    complete = complete_dsn(dsn, connect_seconds=_CONNECT_SECONDS)
    return await psycopg.AsyncConnection.connect(complete, autocommit=True)
