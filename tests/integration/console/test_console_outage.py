"""Pages while Postgres is away or hangs: they say so in time, and come back by themselves."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.integration.cells.control_process import control_process
from tests.integration.cells.gateway_process import eventually
from tests.integration.console.console_browser import Browser

from penstock.console.screens.screens import SCREENS
from penstock.store import migrate
from penstock.store.embedded import EmbeddedPostgres

# Servers of their own are begun and stopped, which takes long on a busy machine.
pytestmark = pytest.mark.timeout(180)
# The others take a minute each.
_IN_CI = "test_pages_say_that_postgres_is_away_and_come_back"


@pytest.fixture(autouse=True)
def at_full_length(request: pytest.FixtureRequest, full: bool) -> None:
    if not full and request.node.name != _IN_CI:
        pytest.skip("further outages: `make nightly`, or --full")


_SAID_SECONDS = 6.0


def _served(own_postgres: EmbeddedPostgres) -> str:
    dsn = make_conninfo(own_postgres.start(), dbname="postgres")
    asyncio.run(migrate(dsn))
    return dsn


def _assert_all_say_so(browser: Browser) -> None:
    for screen in SCREENS:
        began = time.monotonic()
        answer = browser.get(screen.path)
        assert time.monotonic() - began < _SAID_SECONDS, screen.name
        if screen.name == "request" and answer.status_code == 200:
            # It asks nothing before there is an id; who reads may have been known just now.
            continue
        assert answer.status_code == 503, (screen.name, answer.text[-300:])
        assert "Postgres does not answer" in answer.text
        assert '<meta http-equiv="refresh" content="3">' in answer.text
        assert "retry-after" in answer.headers
    part = browser.get("/console/fleet", **{"hx-request": "true"})
    assert (part.status_code, "<html" in part.text) == (503, False)


def _comes_back(browser: Browser) -> None:
    for screen in SCREENS:
        eventually(partial(_is_served, browser, screen.path), seconds=15)


def _is_served(browser: Browser, path: str) -> bool:
    return browser.get(path).status_code == 200


def test_pages_say_that_postgres_is_away_and_come_back(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    dsn = _served(own_postgres)
    with control_process(dsn, tmp_path) as control, Browser(control) as browser:
        browser.page("/console/")
        token = browser.token()
        own_postgres.stop()
        time.sleep(2.1)
        _assert_all_say_so(browser)
        # An act is not sent again by the page that says so.
        began = time.monotonic()
        act = browser.client.post(
            "/console/do/create_account",
            data={"token": token, "name": "a"},
            headers={"origin": browser.origin},
        )
        assert time.monotonic() - began < _SAID_SECONDS
        assert (act.status_code, "http-equiv" in act.text) == (503, False)
        sign_in = browser.sign_in(control.keys.operator)
        assert sign_in.status_code == 503
        # What needs no database is there: the page to sign in, files, and whether control lives.
        assert browser.get("/console/sign-in").status_code == 200
        assert browser.get("/healthz").status_code == 200
        assert own_postgres.start()
        _comes_back(browser)
        with control.client() as client:
            assert client.get("/accounts").json()["accounts"] == []


def test_a_postgres_that_hangs_is_not_waited_for(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    dsn = _served(own_postgres)
    with control_process(dsn, tmp_path) as control, Browser(control) as browser:
        # It reads nothing, so that nothing is known but who reads.
        browser.page("/console/request")
        server = _server_processes(dsn)
        for each in server:
            os.kill(each, signal.SIGSTOP)
        try:
            # At once: the connections have answered a moment ago and are trusted.
            _assert_all_say_so(browser)
        finally:
            for each in server:
                os.kill(each, signal.SIGCONT)
        _comes_back(browser)


def test_control_begins_without_postgres(own_postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    """Its port answers; who was signed in before is so again when Postgres is back."""
    dsn = _served(own_postgres)
    with control_process(dsn, tmp_path) as before, Browser(before) as browser:
        cookies = browser.client.cookies
    own_postgres.stop()
    with control_process(dsn, tmp_path, keys=before.keys) as control, Browser(control, "") as late:
        late.client.cookies = cookies
        answer = late.get("/console/")
        assert (answer.status_code, "Postgres does not answer" in answer.text) == (503, True)
        own_postgres.start()
        eventually(lambda: late.get("/console/").status_code == 200, seconds=15)


def test_pages_that_nobody_waits_for_give_their_connections_back(dsn: str, tmp_path: Path) -> None:
    """Readers leave while their pages wait for a table that somebody has locked."""
    with (
        control_process(dsn, tmp_path, {"control.requests_per_minute": 10_000}) as control,
        Browser(control) as browser,
        psycopg.connect(dsn) as holder,
    ):
        browser.page("/console/policy")
        holder.execute("lock table usage_attempts in access exclusive mode")
        for number in range(12):
            # Two reports run at a time; who asks for more is told to come again.
            with suppress(httpx.ReadTimeout):
                answer = browser.client.get(f"/console/requests?workflow=w{number}", timeout=0.2)
                assert answer.status_code == 503
        # Other tables are read meanwhile, by control's own connections at once.
        began = time.monotonic()
        with control.client() as client:
            assert client.get("/replicas").status_code == 200
        assert time.monotonic() - began < 2
        holder.rollback()
        eventually(lambda: browser.get("/console/policy").status_code == 200, seconds=10)
        assert _open_of(dsn) <= 3 + 4 + 2


def _open_of(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = 'penstock'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _server_processes(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select pg_read_file('postmaster.pid')").fetchone()
    assert row is not None
    pid = int(str(row[0]).splitlines()[0])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]
