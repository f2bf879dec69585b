"""The gateway that is soaked: everything is on, and there are accounts with and without limits.

Its journal files are small: their pages count as the worker's memory while a file is written, and
files of the usual size would draw a saw of 16 MB over the slope that is looked for.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from candidates import Candidate, free_ports_in_a_row, stop_process, wait_ready
from compiled_package import compiled_folder
from penstock.admission import AdmissionSettings, LimitBook
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import AccountId, Role
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Store, StoreSettings
from penstock.store.embedded import EmbeddedPostgres
from penstock.store.migrate import migrate
from penstock_candidate import ENTRY, enroll_upstreams

WORKERS = 2
_REQUESTS = "penstock_requests_total{"
# High enough that nobody is refused in half an hour; low enough that leases go back and forth.
_LIMITS = (
    (Scope.ACCOUNT, "", Measure.REQUESTS, Period.MINUTE, 10**7),
    (Scope.ACCOUNT, "", Measure.TOKENS, Period.DAY, 10**10),
    (Scope.ACCOUNT, "", Measure.NANOUSD, Period.MONTH, 10**15),
    (Scope.SESSION, "*", Measure.REQUESTS, Period.MINUTE, 10**7),
    (Scope.WORKFLOW, "*", Measure.NANOUSD, Period.DAY, 10**14),
)


class SoakGateway:
    """`free_key` is of an account without limits, `limited_key` of one with many."""

    def __init__(
        self, upstream_ports: list[int], workers: int = WORKERS, under: Sequence[str] = ()
    ) -> None:
        """`under` is a command that runs the gateway, such as a profiler."""
        self.upstream_ports = upstream_ports
        self._workers = workers
        self._under = under
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-soak-"))
        # Where this runs as root, Postgres is another user, who has to come through.
        self._folder.chmod(0o711)
        self._postgres = EmbeddedPostgres(self._folder / "postgres")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.dsn = self._postgres.start()
            self.free_key, self.limited_key = asyncio.run(_prepare(self.dsn, upstream_ports))
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        (self._folder / "models").mkdir()
        (self._folder / "models" / "m.toml").write_text(ENTRY)
        (self._folder / "run").mkdir()
        self.port = free_ports_in_a_row(2)
        settings = {
            "STORE_DSN": self.dsn,
            "STORE_OBJECTS_URL": f"file:{self._folder}/objects",
            "CATALOGUE_FOLDER": str(self._folder / "models"),
            "INGRESS_PORT": str(self.port),
            "INGRESS_METRICS_PORT": str(self.port + 1),
            "INGRESS_RUN_FOLDER": str(self._folder / "run"),
            "INGRESS_WORKERS": str(self._workers),
            "METERING_JOURNAL_FOLDER": str(self._folder / "journal"),
            "SIGNALS_FOLDER": str(self._folder / "signals"),
            "METERING_SEGMENT_BYTES": str(2**20),
            "METERING_OPEN_MAX": "2048",
        }
        environment = {f"PENSTOCK_{name}": value for name, value in settings.items()}
        with (self._folder / "gateway.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self._under, sys.executable, "-m", "penstock", "gateway"],
                stdout=log,
                stderr=log,
                env={"PATH": os.defpath, "PYTHONPATH": str(compiled_folder()), **environment},
            )
        wait_ready(self.candidate())

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def candidate(self) -> Candidate:
        """As the benchmarks that compare see it."""
        return Candidate("penstock", self.port, self._process, self._workers, key=self.limited_key)

    def worker_pids(self) -> list[int]:
        return sorted(int(path.stem) for path in (self._folder / "run").glob("*.sock"))

    def requests_ended(self) -> int:
        """All requests that have had their answer, by the gateway's own count."""
        with urlopen(f"http://127.0.0.1:{self.port + 1}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        counts = [line.split()[-1] for line in lines if line.startswith(_REQUESTS)]
        return sum(int(float(count)) for count in counts)

    def ledger_rows(self) -> int:
        return asyncio.run(_count(self.dsn))

    def stop(self) -> None:
        if self._process is not None:
            stop_process(self._process)
        self._postgres.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


async def _prepare(dsn: str, ports: list[int]) -> tuple[str, str]:
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        secrets = []
        for name in ("free", "limited"):
            account = await AccountBook(store).create(name)
            _, secret = await KeyBook(store).create(Role.RUNTIME, account.id, name)
            secrets.append(secret)
        book = LimitBook(store, AdmissionSettings())
        for scope, value, measure, period, amount in _LIMITS:
            wanted = Limit(0, AccountId(account.id), scope, value, measure, period, amount)
            await book.create(wanted)
        await enroll_upstreams(store, ports)
    finally:
        await store.close()
    return secrets[0], secrets[1]


async def _count(dsn: str) -> int:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        async with store.transaction() as transaction:
            row = await transaction.fetch_one("select count(*) from usage_attempts")
    finally:
        await store.close()
    assert row is not None
    return int(row[0])
