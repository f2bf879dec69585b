"""Pages while Postgres is away or hangs: they say so in time, and come back by themselves."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.integration.cells.control_process import control_process
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.usage_rows import Attempt, attempt, new_account, write
from tests.integration.console.console_browser import Browser

from penstock.clock import SystemClock
from penstock.console.screens.screens import SCREENS
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres

# Servers of their own are begun and stopped, which takes long on a busy machine.
pytestmark = pytest.mark.timeout(180)
# The others take half a minute each.
_IN_CI: Final = {
    "test_pages_say_that_postgres_is_away_and_come_back",
    "test_a_postgres_that_hangs_is_not_waited_for[all at once]",
}


@pytest.fixture(autouse=True)
def at_full_length(request: pytest.FixtureRequest, full: bool) -> None:
    if not full and request.node.name not in _IN_CI:
        pytest.skip("further outages: `make nightly`, or --full")


_SAID_SECONDS = 6.0
_BACK_SECONDS = 15.0
_BUSY = "Too many usage reports at once."


class Served(NamedTuple):
    """A server of a test's own, and the pages whose facts are in it."""

    dsn: str
    addresses: list[str]


def _served(own_postgres: EmbeddedPostgres) -> Served:
    """Start a server that knows one request, of one session."""
    dsn = make_conninfo(own_postgres.start(), dbname="postgres")
    asyncio.run(migrate(dsn))
    row = attempt(new_account(), asked_at=SystemClock().now() - 60, session="one")
    asyncio.run(_write(dsn, row))
    of_request = urlencode({"id": row["request"]})
    of_session = urlencode({"session": row["session"], "account": row["account"]})
    return Served(
        dsn,
        [
            *(screen.path for screen in SCREENS),
            f"/console/request?{of_request}",
            f"/console/sessions?{of_session}",
        ],
    )


async def _write(dsn: str, row: Attempt) -> None:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        await write(store, [row])
    finally:
        await store.close()


def _assert_says_so(browser: Browser, address: str, *, may_be_busy: bool = False) -> None:
    began = time.monotonic()
    answer = browser.get(address)
    assert time.monotonic() - began < _SAID_SECONDS, address
    if address == "/console/request" and answer.status_code == 200:
        # It asks nothing before there is an id; who reads may have been known just now.
        return
    assert answer.status_code == 503, (address, answer.text[-300:])
    said = ("Postgres does not answer", *([_BUSY] if may_be_busy else []))
    assert any(each in answer.text for each in said), (address, answer.text[-300:])
    assert '<meta http-equiv="refresh" content="3">' in answer.text
    assert "retry-after" in answer.headers


def _assert_all_say_so(browser: Browser, addresses: list[str]) -> None:
    for address in addresses:
        _assert_says_so(browser, address)
    part = browser.get("/console/fleet", **{"hx-request": "true"})
    assert (part.status_code, "<html" in part.text) == (503, False)


def _assert_all_say_so_at_once(browser: Browser, addresses: list[str]) -> None:
    """Ask for all pages in one moment, in which it is known who reads: each waits for its own.

    More reports than may run at a time are refused; one request and one session come first.
    """
    *others, of_request, of_session = addresses
    with ThreadPoolExecutor(len(addresses)) as readers:
        first = [
            readers.submit(_assert_says_so, browser, each) for each in (of_request, of_session)
        ]
        time.sleep(0.3)
        last = readers.map(partial(_assert_says_so, browser, may_be_busy=True), others)
        for each in first:
            each.result()
        list(last)


def _comes_back(browser: Browser, addresses: list[str]) -> None:
    for address in addresses:
        deadline = time.monotonic() + _BACK_SECONDS
        while browser.get(address).status_code != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        browser.page(address)


def test_pages_say_that_postgres_is_away_and_come_back(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    dsn, addresses = _served(own_postgres)
    with control_process(dsn, tmp_path) as control, Browser(control) as browser:
        for address in addresses:
            browser.page(address)
        token = browser.token()
        own_postgres.stop()
        time.sleep(2.1)
        _assert_all_say_so(browser, addresses)
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
        _comes_back(browser, addresses)
        with control.client() as client:
            assert client.get("/accounts").json()["accounts"] == []


@pytest.mark.parametrize(
    "assert_all_say_so",
    [
        pytest.param(_assert_all_say_so_at_once, id="all at once"),
        pytest.param(_assert_all_say_so, id="one by one"),
    ],
)
def test_a_postgres_that_hangs_is_not_waited_for(
    own_postgres: EmbeddedPostgres,
    tmp_path: Path,
    assert_all_say_so: Callable[[Browser, list[str]], None],
) -> None:
    dsn, addresses = _served(own_postgres)
    with control_process(dsn, tmp_path) as control, Browser(control) as browser:
        # It reads nothing, so that nothing is known but who reads.
        browser.page("/console/request")
        with _hanging(dsn):
            # At once: the connections have answered a moment ago and are trusted.
            assert_all_say_so(browser, addresses)
        _comes_back(browser, addresses)


def test_control_begins_without_postgres(own_postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    """Its port answers; who was signed in before is so again when Postgres is back."""
    dsn, _ = _served(own_postgres)
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


@contextmanager
def _hanging(dsn: str) -> Iterator[None]:
    """Stop the server's processes, which keeps its connections open, until the block ends."""
    server = _server_processes(dsn)
    try:
        _send(server, signal.SIGSTOP)
        yield
    finally:
        _send(server, signal.SIGCONT)


def _send(processes: list[int], sent: signal.Signals) -> None:
    for each in processes:
        # One that has ended is not missed.
        with suppress(ProcessLookupError):
            os.kill(each, sent)


def _server_processes(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select pg_read_file('postmaster.pid')").fetchone()
    assert row is not None
    pid = int(str(row[0]).splitlines()[0])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]
