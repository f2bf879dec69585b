"""Control with its console on a database with the made-up incident, and a reader at a browser."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.acceptance.site_browser import Browser
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.cells.gateway_process import GatewayProcess
from tests.integration.cells.incident_rows import (
    MODEL,
    REPLICAS,
    Incident,
    make_incident,
    make_last_hour,
)
from tests.integration.cells.queue_work import Work, new_job
from tests.integration.contracts.decision_worker import DecisionWorker
from tests.unit.contracts.decision_rows import ALLOWED, DECIDED, DENIED

from penstock.admission import AdmissionSettings, LimitBook
from penstock.clock import SystemClock, new_id
from penstock.console.screens.screens import SCREENS
from penstock.fleet.hosts import HostReports
from penstock.fleet.roster import RosterTable
from penstock.fleet.workers import Worker, WorkerTable
from penstock.policy import AccountBook
from penstock.records.account import AccountId
from penstock.records.host import Gpu, HostReport
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.records.model import ModelId
from penstock.records.replica import LoadFigures, Replica, ReplicaId, ReplicaState
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

_PATIENT = {
    "control.requests_per_minute": 100_000,
    "control.console_sign_ins_per_minute": 1000,
}
# A gateway sees at once what somebody did at the console.
_QUICK = {"admission.limits_refresh_seconds": 0.1}
# Nobody beats for the replicas, hosts and workers of these tests.
_HEARD_OF = (
    "update replicas set heartbeat_at = now() + interval '1 day'",
    "update hosts set heartbeat_at = now() + interval '1 day'",
    "update workers set beat_at = now() + interval '1 day'",
)
_DATABASE = "console_template"
_HOSTS = ("gpu-1", "gpu-2")
_WAITING_JOBS = 7
_numbers = itertools.count(1)


class ConsoleCell(msgspec.Struct, frozen=True):
    """A running control process, and what is wrong in its cell."""

    control: ControlProcess
    dsn: str
    incident: Incident | None = None
    gateway: str = ""


class ConsoleServer:
    """A Postgres for the cells of one test module."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._dsn = postgres.start()
        self._create(_DATABASE, "template1")
        asyncio.run(migrate(make_conninfo(self._dsn, dbname=_DATABASE)))

    @contextmanager
    def cell(
        self, folder: Path, seed: int | None, engine: ScriptedEngine | None = None
    ) -> Iterator[ConsoleCell]:
        """Run control on a new database: with the incident of a seed, or an empty one.

        An empty one may have an engine, for which a gateway runs beside control.
        """
        name = f"console_{next(_numbers)}"
        self._create(name, _DATABASE)
        dsn = make_conninfo(self._dsn, dbname=name)
        incident = None
        if seed is not None:
            incident = asyncio.run(_fill(dsn, folder, seed))
        elif engine is not None:
            asyncio.run(_serve(dsn, engine))
        settings: dict[str, object] = {**_PATIENT}
        with ExitStack() as running:
            gateway = ""
            if engine is not None:
                started = GatewayProcess(folder, {**_QUICK, "store.dsn": dsn})
                gateway = running.enter_context(started).url
                settings["control.console_gateway_url"] = gateway
            control = running.enter_context(control_process(dsn, folder, settings))
            yield ConsoleCell(control, dsn, incident, gateway)

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("create database {} template {}")
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


@contextmanager
def console_server() -> Iterator[ConsoleServer]:
    """Start a Postgres; it ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    postgres = EmbeddedPostgres(folder, fast_unsafe=True)
    try:
        yield ConsoleServer(postgres)
    finally:
        postgres.stop()
        shutil.rmtree(folder)


class ConsoleReader:
    """Somebody at a browser who has a key."""

    def __init__(self, browser: Browser, url: str, key: str) -> None:
        self.browser = browser
        self.url = url
        self.key = key

    def open(self, path: str = "/console/") -> None:
        self.browser.open(self.url + path)

    def sign_in(self, key: str = "") -> None:
        """Sign in from no session at all."""
        self.browser.delete_cookies()
        self.open()
        assert self.title() == "Sign in"
        self.browser.type(key or self.key)
        self.browser.press("Enter")
        self.browser.wait_for("!!document.querySelector('nav')", "not signed in")

    def title(self) -> str:
        """The open page's title, without the program's name."""
        title: str = self.browser.evaluate("document.title")
        return title.removesuffix(" · Penstock")

    def heading(self) -> str:
        return str(self.browser.evaluate("document.querySelector('h1').textContent"))

    def text(self, selector: str = "main") -> str:
        """What a person reads there."""
        found = f"document.querySelector({selector!r})?.innerText"
        return str(self.browser.wait_for(found, f"no text in {selector}"))

    def go(self, act: Callable[[], None]) -> None:
        """Do something that leads to another page, and wait until that is there."""
        self.browser.evaluate("window.isOld = true")
        act()
        self.browser.wait_for(
            "!window.isOld && document.readyState === 'complete'", "no other page came"
        )

    def click(self, selector: str) -> None:
        """Click on what leads to another page; without a mouse, go there by keys."""
        self.go(lambda: self.browser.activate(selector))

    def follow(self, screen: str) -> None:
        """Click on a screen in the list of pages; without a mouse, press its keys."""
        if self.browser.has_mouse:
            self.click(f"nav a[data-digit='{digit_of(screen)}']")
        else:
            self.go(lambda: self.browser.press("g", digit_of(screen)))

    def check_quiet(self, refused: int = 0) -> None:
        """Check that no page since the last check logged an error or asked another origin.

        `refused` is the status of a page that was to be refused, which Chromium reports too.
        """
        # An answer to a question means that all events before it have arrived.
        self.browser.settle()
        requests, errors = list(self.browser.all_requests), list(self.browser.all_errors)
        self.browser.forget()
        foreign = [url for url in requests if not is_of(self.url, url)]
        assert foreign == [], foreign
        expected = f"the server responded with a status of {refused} "
        errors = [each for each in errors if expected not in each]
        assert errors == [], errors


def is_of(origin: str, url: str) -> bool:
    """Return whether an address is of this origin, or is in the page itself."""
    asked, own = urlsplit(url), urlsplit(origin)
    return asked.scheme == "data" or (asked.scheme, asked.netloc) == (own.scheme, own.netloc)


def digit_of(screen: str) -> str:
    return next(each.digit for each in SCREENS if each.name == screen)


async def _serve(dsn: str, engine: ScriptedEngine) -> None:
    """List an engine as the one replica of a cell."""
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        replica = _replica(0, engine.url, engine.model)
        await RosterTable(store).enroll(replica, keeper=replica.host)
        async with store.transaction() as transaction:
            await transaction.execute(_HEARD_OF[0])
    finally:
        await store.close()


async def _fill(dsn: str, folder: Path, seed: int) -> Incident:
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        incident = await make_incident(store, seed, now)
        await make_last_hour(store, incident, seed, now)
        await fill_surroundings(store, folder, incident.account)
    finally:
        await store.close()
    return incident


async def fill_surroundings(store: Store, folder: Path, account: str) -> None:
    """Fill what is in a cell beside its ledger: a fleet, decisions, limits and jobs."""
    await _fill_fleet(store)
    await _fill_decisions(store, folder, account)
    await _fill_limits(store, account)
    await _fill_jobs(store)


def _replica(number: int, url: str, served_name: str) -> Replica:
    return Replica(
        id=ReplicaId(REPLICAS[number]),
        model=ModelId(MODEL),
        url=url,
        state=ReplicaState.READY,
        served_name=served_name,
        host=_HOSTS[number % len(_HOSTS)],
        gpus=(str(number),),
    )


async def _fill_fleet(store: Store) -> None:
    """Four replicas on two hosts, and a gateway worker beside control's own row."""
    roster, hosts = RosterTable(store), HostReports(store)
    replicas = [
        _replica(number, f"http://127.0.0.1:{number + 1}", "kimi")
        for number in range(len(REPLICAS))
    ]
    for replica in replicas:
        await roster.enroll(replica, keeper=replica.host)
    loads = {
        replica.id: LoadFigures(running=11 + 7 * number, kv_use=0.31 + 0.17 * number)
        for number, replica in enumerate(replicas)
    }
    await roster.beat(replicas, loads)
    for name in _HOSTS:
        gpus = tuple(Gpu(index, f"GPU-{name}-{index}", "H200", 143_771) for index in range(8))
        await hosts.report(name, HostReport(name=name, address="10.0.0.1", gpus=gpus))
    facts: dict[str, str | int] = {"in_flight": 74, "journal_bytes": 2_097_152}
    await WorkerTable(store).beat(Worker(new_id(), "gateway", "gate-1", "0.1.0", facts))
    async with store.transaction() as transaction:
        for statement in _HEARD_OF:
            await transaction.execute(statement)


async def _fill_decisions(store: Store, folder: Path, account: str) -> None:
    """Calls of a tool: some allowed, two refused."""
    worker = DecisionWorker(store, folder / "decisions")
    request = msgspec.structs.replace(DECIDED, account=account)
    for decision in (ALLOWED, ALLOWED, DENIED, DENIED):
        worker.log.write(request, [decision])
    await worker.drain.empty()


async def _fill_limits(store: Store, account: str) -> None:
    book = LimitBook(store, AdmissionSettings())
    for measure, period, amount in (
        (Measure.NANOUSD, Period.DAY, 500 * 10**9),
        (Measure.REQUESTS, Period.MINUTE, 600),
    ):
        limit = Limit(0, AccountId(account), Scope.ACCOUNT, "", measure, period, amount, True)
        await book.create(limit)


async def _fill_jobs(store: Store) -> None:
    """Jobs that wait, one that runs and one that is done."""
    account = (await AccountBook(store).list())[0].id
    work = Work(store)
    await work.submit([new_job() for _ in range(_WAITING_JOBS)], account)
    done, _ = await work.claim(2)
    await work.finish([done])
