"""What a connection is made with, and how its failures are named."""

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock import errors
from penstock.store.connection import complete_dsn, naming_failures


def test_what_the_dsn_says_wins_over_our_defaults() -> None:
    dsn = complete_dsn(
        "postgresql://me:pw@db.example/cell?connect_timeout=7&application_name=mine",
        connect_seconds=3,
    )
    given = conninfo_to_dict(dsn)
    assert given["host"] == "db.example"
    assert given["password"] == "pw"
    assert given["connect_timeout"] == "7"
    assert given["application_name"] == "mine"


def test_what_the_dsn_leaves_open_is_filled_in() -> None:
    given = conninfo_to_dict(complete_dsn("host=db.example", connect_seconds=3))
    assert given["connect_timeout"] == "3"
    assert given["application_name"] == "penstock"
    assert int(str(given["tcp_user_timeout"])) > 0


@pytest.mark.parametrize(
    "failure",
    [
        psycopg.OperationalError("server closed the connection: host db.example user me"),
        psycopg.errors.AdminShutdown(),
        psycopg.errors.QueryCanceled(),
        psycopg.errors.TooManyConnections(),
        psycopg.errors.ReadOnlySqlTransaction(),
        psycopg.errors.IdleInTransactionSessionTimeout(),
    ],
)
def test_a_failure_of_the_server_is_store_unavailable(failure: psycopg.Error) -> None:
    with pytest.raises(errors.StoreUnavailable) as caught, naming_failures():
        raise failure
    assert "db.example" not in caught.value.message


@pytest.mark.parametrize(
    "mistake",
    [psycopg.errors.UndefinedTable(), psycopg.errors.UniqueViolation(), psycopg.ProgrammingError()],
)
def test_a_mistake_in_a_statement_goes_up_as_it_is(mistake: psycopg.Error) -> None:
    with pytest.raises(type(mistake)), naming_failures():
        raise mistake
