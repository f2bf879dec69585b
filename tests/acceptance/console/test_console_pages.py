"""Every screen in a real browser: readable by everybody, at any width, and without an error."""

import gzip
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.acceptance.console.axe import Look
from tests.acceptance.console.chart_values import check_charts
from tests.acceptance.console.console_cell import (
    ConsoleCell,
    ConsoleReader,
    ConsoleServer,
)
from tests.acceptance.site_browser import Browser
from tests.integration.cells.gateway_process import eventually

from penstock.console.screens.screens import SCREENS

SEED = 20261119
_PAGE_BYTES_MAX = 30_000
# By page: how many charts with axes it has while there is something to draw.
_CHARTS = {"stability": 1, "stability-7d": 1, "spend": 1, "one-request": 1, "one-session": 1}
_SPARKS = """[...document.querySelectorAll('main svg.spark')].filter(each =>
    !(each.closest('tr') && /% at last|unknown/.test(each.getAttribute('aria-label'))))
    .map(each => each.getAttribute('aria-label'))"""


@pytest.fixture(scope="module")
def filled(
    server: ConsoleServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleCell]:
    with server.cell(tmp_path_factory.mktemp("filled"), SEED) as cell:
        yield cell


@pytest.fixture(scope="module")
def empty(server: ConsoleServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCell]:
    with server.cell(tmp_path_factory.mktemp("empty"), None) as cell:
        yield cell


@pytest.mark.timeout(300)
def test_screens_are_readable_and_their_charts_have_tables(
    filled: ConsoleCell, browser: Browser, look: Look
) -> None:
    reader = ConsoleReader(browser, filled.control.url, filled.control.keys.operator)
    reader.sign_in()
    wrong = {}
    for name, path in _pages(reader, filled).items():
        reader.open(path)
        assert check_charts(browser) >= _CHARTS.get(name, 0), name
        assert browser.evaluate(_SPARKS) == [], name
        whole = browser.evaluate("document.documentElement.outerHTML").encode()
        assert len(gzip.compress(whole)) <= _PAGE_BYTES_MAX, name
        wrong[name] = look(name)
        reader.check_quiet(refused=404 if name == "nothing" else 0)
    assert not any(wrong.values()), wrong


@pytest.mark.timeout(300)
def test_screens_without_data_are_readable(
    empty: ConsoleCell, browser: Browser, look: Look
) -> None:
    reader = ConsoleReader(browser, empty.control.url, empty.control.keys.operator)
    reader.sign_in()
    wrong = {}
    for screen in SCREENS:
        reader.open(screen.path)
        check_charts(browser)
        wrong[screen.name] = look(screen.name)
    assert not any(wrong.values()), wrong
    reader.check_quiet()


def test_pages_outside_the_frame_are_readable(
    empty: ConsoleCell, browser: Browser, look: Look
) -> None:
    reader = ConsoleReader(browser, empty.control.url, empty.control.keys.operator)
    browser.delete_cookies()
    reader.open()
    assert reader.title() == "Sign in"
    assert look("sign-in") == []
    browser.type("psk_wrong")
    reader.go(lambda: browser.press("Enter"))
    assert look("wrong-key") == []
    reader.check_quiet(refused=403)
    reader.sign_in()
    reader.open("/console/accounts")
    browser.click("#new-key summary")
    browser.choose("#new-key [name=role]", "auditor")
    browser.click("#new-key [name=name]")
    browser.type("of a colleague")
    reader.click("#new-key button")
    assert reader.text("#secret").startswith("psk_")
    assert look("secret") == []
    reader.check_quiet()


@pytest.mark.timeout(120)
def test_a_page_without_postgres_is_readable_and_comes_back(
    empty: ConsoleCell, browser: Browser, look: Look
) -> None:
    reader = ConsoleReader(browser, empty.control.url, empty.control.keys.operator)
    reader.sign_in()
    _allow_connections(empty, is_allowed=False)
    try:
        eventually(lambda: _opened(reader) == "Postgres does not answer", seconds=20)
        # It would ask again while it is judged.
        browser.evaluate(
            "for (let timer = setTimeout(() => 0); timer; timer--) clearTimeout(timer)"
        )
        found = look("away")
        assert _opened(reader) == "Postgres does not answer"
    finally:
        _allow_connections(empty, is_allowed=True)
    assert found == []
    # By itself, without a key or a click.
    browser.wait_for("!!document.querySelector('nav')", "the page does not come back", 20)
    browser.forget()


def _opened(reader: ConsoleReader) -> str:
    reader.open("/console/fleet")
    return reader.title()


def _allow_connections(cell: ConsoleCell, *, is_allowed: bool) -> None:
    """Let the database of a cell take connections, or cut off those that it has."""
    name = str(conninfo_to_dict(cell.dsn)["dbname"])
    elsewhere = make_conninfo(cell.dsn, dbname="postgres")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter database {} allow_connections {}").format(
                sql.Identifier(name), sql.Literal(is_allowed)
            )
        )
        if not is_allowed:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
            )


def _pages(reader: ConsoleReader, cell: ConsoleCell) -> dict[str, str]:
    """The address of every page, also of those that need an id, and of the short periods."""
    pages = {each.name: each.path for each in SCREENS}
    pages["spend-1h"] = "/console/spend?period=1h"
    pages["stability-7d"] = "/console/?period=7d"
    pages["nothing"] = "/console/nothing"
    if cell.incident is None:
        return pages
    lists = {"one-request": "/console/requests?order=dear", "one-session": "/console/sessions"}
    for name, path in lists.items():
        reader.open(path)
        pages[name] = reader.browser.evaluate(
            "(a => a.pathname + a.search)(document.querySelector('main tbody a'))"
        )
    pages["one-account"] = f"/console/accounts?account={cell.incident.account}"
    return pages
