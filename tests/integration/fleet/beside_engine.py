"""`penstock keeper` as it runs in an engine's own pod, set up by the environment alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from tests.integration.cells.gateway_cell import CHAT, Cell
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT
from tests.integration.cells.runtime_dsn import runtime_dsn

_QUICK = {
    "FLEET_HEARTBEAT_SECONDS": "0.2",
    "FLEET_DRAIN_SETTLE_SECONDS": "0.5",
    "FLEET_METRICS_PORT": "0",
    "SIGNALS_TRANSPORT": "off",
    "PULLER_CONTROL_SECONDS": "0.2",
}


class KeeperBesideEngine:
    """One keeper process of a cell; `state` is the folder that outlives its container."""

    def __init__(self, cell: Cell, url: str, state: Path, **settings: str) -> None:
        self._cell = cell
        folder = cell.journal.parent
        own = {
            "STORE_DSN": runtime_dsn(cell.dsn),
            "STORE_CELL_KEY_FILE": cell.key_file,
            "CATALOGUE_FOLDER": str(folder / "catalogue"),
            "METERING_JOURNAL_FOLDER": str(state / "journal"),
            "FLEET_STATE_FOLDER": str(state),
            "FLEET_REPLICAS": f'[{{model = "{CHAT}", provider = "attach", url = "{url}"}}]',
            **_QUICK,
            **settings,
        }
        command = [sys.executable, "-m", "penstock", "keeper", "--parent-pid", str(os.getpid())]
        with (folder / "keeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The folder of the gateway, whose objects have the payloads of jobs.
                cwd=folder,
                env={**CHILD_ENVIRONMENT, **{f"PENSTOCK_{key}": own[key] for key in own}},
            )

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def wait(self, seconds: float = 20.0) -> int:
        return self._process.wait(seconds)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.has_ended:
            self.kill()


def rows_at(cell: Cell, url: str) -> list[tuple[str, str]]:
    """Id and state of the replicas that were ever listed at this address, oldest first."""
    select = "select id, state from replicas where url = %s order by id"
    with psycopg.connect(cell.dsn) as connection:
        return connection.execute(select, (url,)).fetchall()


def generation_at(cell: Cell, url: str) -> int:
    """Return the newest generation of the replica at this address: each adoption raises it."""
    select = "select max(generation) from replicas where url = %s"
    with psycopg.connect(cell.dsn) as connection:
        row = connection.execute(select, (url,)).fetchone()
    return row[0] if row else 0


def listed(cell: Cell, url: str, state: str, seconds: float = 10.0) -> str:
    """Wait until the newest replica at this address is in this state, and return its id."""
    deadline = time.monotonic() + seconds
    while True:
        rows = rows_at(cell, url)
        if rows and rows[-1][1] == state:
            return rows[-1][0]
        assert time.monotonic() < deadline, f"not {state} within {seconds} s: {rows}"
        time.sleep(0.02)
