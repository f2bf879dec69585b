"""A Postgres of its own, one engine with a long memory, and gateways that can be killed."""

import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path

import msgspec
import psycopg
from tests.chaos.process_tree import kill_tree
from tests.chaos.started import Started
from tests.integration.cells.gateway_cell import CHAT, Cell
from tests.integration.cells.gateway_process import GatewayProcess, Settings
from tests.integration.cells.runtime_dsn import prepare_runtime_role, runtime_dsn

from penstock.admission import AdmissionSettings, LimitBook
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import migrate
from penstock.store.embedded import EmbeddedPostgres

SLOTS = 2000
_LOG_LIMIT = 100_000


class Cluster(Started):
    """`with Cluster({"ingress.workers": 2}) as cluster:` and everything in it ends with the block.

    `cell.gateway` is started by the part that uses it; `cell.key` is an account's key.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._gateways = 1

    def _start(self) -> None:
        # Not below a folder that only we may enter: as root, Postgres runs as somebody else.
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.postgres = EmbeddedPostgres(self.folder / "postgres", fast_unsafe=True)
        self._stack.callback(self.postgres.stop)
        self.dsn = self.postgres.start()
        asyncio.run(migrate(self.dsn))
        asyncio.run(prepare_runtime_role(self.dsn))
        folder = self.folder / "first"
        folder.mkdir()
        self.cell = Cell(self.dsn, folder, self._settings)
        self._stack.callback(self.cell.close)
        self.cell.account, self.cell.key_id, self.cell.key = self.cell.add_account("first")
        self.engine = self.cell.add_engine(log_limit=_LOG_LIMIT, slots=SLOTS)
        self.cell.enroll(self.engine.url, CHAT, slots_live=SLOTS)
        self.gateway = self.cell.gateway
        self._stack.callback(self.gateway.stop)

    def add_gateway(self, journal: Path | None = None) -> GatewayProcess:
        """One more gateway on the same Postgres, as on a host of its own: with its own journals.

        Unless a journal folder is given, as to a second gateway on the same host.
        """
        self._gateways += 1
        folder = self.folder / f"gateway-{self._gateways}"
        folder.mkdir()
        places = {
            "store.dsn": runtime_dsn(self.dsn),
            "catalogue.folder": str(self.folder / "first" / "catalogue"),
            "metering.journal_folder": str(journal or folder / "journal"),
        }
        gateway = GatewayProcess(folder, {**places, **self._settings})
        self._stack.callback(gateway.stop)
        return gateway

    def set_limit(self, account: str, measure: Measure, amount: int) -> Limit:
        """On the whole account, for a month."""
        wanted = Limit(0, AccountId(account), Scope.ACCOUNT, "", measure, Period.MONTH, amount)
        return self.cell.run(lambda store: LimitBook(store, AdmissionSettings()).create(wanted))

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.dsn, autocommit=True)


def kill(gateway: GatewayProcess) -> None:
    """kill -9 of a gateway: the parent first, so that it starts nobody again, and its children."""
    kill_tree(gateway.pid)
    gateway.wait()


def kill_worker(gateway: GatewayProcess) -> int:
    """kill -9 of one of the workers; its pid."""
    pid = min(gateway.worker_pids())
    os.kill(pid, signal.SIGKILL)
    return pid


class Held(msgspec.Struct, frozen=True):
    """What of a limit is held or spent by all workers together, in one snapshot."""

    charged: int
    granted: int
    spent: int
    holders: int


def read_held(connection: psycopg.Connection, limit: int) -> Held:
    row = connection.execute(_HELD, {"limit": limit}).fetchone()
    assert row is not None
    return Held(*map(int, row))


_HELD = """
    select coalesce(sum(greatest(granted, spent)), 0), coalesce(sum(granted), 0),
           coalesce(sum(spent), 0), count(*) filter (where granted > spent)
    from (
        select sum(granted) as granted, sum(spent) as spent
        from (
            select holder, granted, 0 as spent from leases where limit_id = %(limit)s
            union all
            select holder, 0, amount from limit_spend where limit_id = %(limit)s
        ) each_row group by holder
    ) by_holder
"""
