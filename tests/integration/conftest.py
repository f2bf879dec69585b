"""A real Postgres for the integration tests: one server per run, one fresh database per test."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.integration.cells.commands import Penstock
from tests.integration.cells.gateway_cell import (
    CHAT,
    NATIVE,
    PLAIN,
    PRIVATE,
    THINKER,
    Cell,
    CellFactory,
)
from tests.integration.cells.runtime_dsn import prepare_runtime_role
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

_TEMPLATE = "penstock_template"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """The server itself; tests want `dsn` or `empty_dsn`."""
    # Not tmp_path: as root its parents are shut to the user that Postgres runs as.
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def migrated_template(postgres_dsn: str) -> str:
    """A migrated database that others are copied from, which is much faster than migrating each."""
    _create_database(postgres_dsn, _TEMPLATE, "template1")
    template = make_conninfo(postgres_dsn, dbname=_TEMPLATE)
    asyncio.run(migrate(template))
    asyncio.run(prepare_runtime_role(template))
    with psycopg.connect(template) as connection:
        # Tests that are not about stored responses get what the engine answers.
        connection.execute("update cell_defaults set stores_responses = false")
    return _TEMPLATE


@pytest.fixture
def empty_dsn(postgres_dsn: str) -> Iterator[str]:
    """A database without a single table."""
    name = f"penstock_test_{next(_numbers)}"
    _create_database(postgres_dsn, name, "template1")
    yield make_conninfo(postgres_dsn, dbname=name)
    _drop_database(postgres_dsn, name)


@pytest.fixture
def dsn(postgres_dsn: str, migrated_template: str) -> Iterator[str]:
    """A fresh, migrated database."""
    name = f"penstock_test_{next(_numbers)}"
    _create_database(postgres_dsn, name, migrated_template)
    yield make_conninfo(postgres_dsn, dbname=name)
    _drop_database(postgres_dsn, name)


@pytest.fixture(scope="module")
def module_dsn(postgres_dsn: str, migrated_template: str) -> Iterator[str]:
    """A migrated database for all tests of a module."""
    name = f"penstock_test_{next(_numbers)}"
    _create_database(postgres_dsn, name, migrated_template)
    yield make_conninfo(postgres_dsn, dbname=name)
    _drop_database(postgres_dsn, name)


@pytest.fixture
def penstock(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    """Commands on the test's database, in this process."""
    monkeypatch.setenv("PENSTOCK_STORE_DSN", dsn)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[Store]:
    """An open store on a fresh, migrated database."""
    opened = Store(StoreSettings(dsn=dsn))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server of the test's own, not started yet, for tests that stop it."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _create_database(server: str, name: str, template: str) -> None:
    statement = sql.SQL("create database {} template {}")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


def _drop_database(server: str, name: str) -> None:
    statement = sql.SQL("drop database {} with (force)")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def cells(
    postgres_dsn: str, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> CellFactory:
    """Makes gateways with all that is around them, for tests of a whole gateway."""
    return CellFactory(postgres_dsn, migrated_template, tmp_path_factory.mktemp)


@pytest.fixture(scope="session")
def shared_cell(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    """One gateway with default limits, for the tests that neither stop nor starve it."""
    with cells.open() as cell:
        yield cell, cell.set_up(CHAT, PLAIN, NATIVE, PRIVATE, THINKER)


@pytest.fixture
def cell(shared_cell: tuple[Cell, ScriptedEngine]) -> Cell:
    return shared_cell[0]


@pytest.fixture
def engine(shared_cell: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    """The shared cell's engine, behaving again for each test."""
    shared_cell[1].control()
    return shared_cell[1]
