"""The role of the tests' gateways and keepers, which fail where a right is missing."""

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from penstock.store.runtime_role import grant_runtime_role

ROLE = "penstock_runtime"


async def prepare_runtime_role(dsn: str) -> None:
    """Make the role on the server, and give it its rights on a database and all copies of it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute("select from pg_roles where rolname = %s", (ROLE,))
        if found.fetchone() is None:
            connection.execute(sql.SQL("create role {} login").format(sql.Identifier(ROLE)))
    await grant_runtime_role(dsn, ROLE)


def runtime_dsn(dsn: str) -> str:
    return make_conninfo(dsn, user=ROLE)
