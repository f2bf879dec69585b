"""A cell that is set up by one version's sources and goes on with another's.

The old version's own commands write its tables, as an operator of that version would have.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
from tests.chaos.started import Started
from tests.integration.cells.gateway_cell import CHAT, SERVED, entry_of
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT, GatewayProcess

from penstock.clock import new_id
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

_SLOTS = 500
_LOG_LIMIT = 100_000
_COMMAND_SECONDS = 180
_ENROLL = (
    "insert into replicas (id, model, url, served_name, dialect, state, slots_live, generation,"
    " host, keeper, revision) values (%s, %s, %s, %s, 'vllm', 'ready', %s, 1, 'h', 'k', 1)"
)


class ReleaseCell(Started):
    """A Postgres, an engine, an account with a key; everything ends with the block."""

    def __init__(self, folder: Path, old_sources: Path) -> None:
        super().__init__()
        self._folder = folder
        self.old_sources = old_sources

    def _start(self) -> None:
        self._postgres = EmbeddedPostgres(self._folder / "postgres", fast_unsafe=True)
        self._stack.callback(self._postgres.stop)
        self._dsn = self._postgres.start()
        catalogue = self._folder / "catalogue"
        catalogue.mkdir()
        (catalogue / "chat.toml").write_text(entry_of(CHAT))
        self._old("migrate")
        account = json.loads(self._old("account", "create", "first", "--json"))["id"]
        self.key = self._old("key", "create", "--account", account).split()[-1]
        engine = ScriptedEngine(model=SERVED, log_limit=_LOG_LIMIT, slots=_SLOTS)
        self.engine = self._stack.enter_context(engine)
        with self.connect() as connection:
            connection.execute(_ENROLL, (new_id(), CHAT, self.engine.url, SERVED, _SLOTS))

    def gateway(self, name: str, sources: Path | None = None) -> GatewayProcess:
        """A gateway that is not started; one of the same name has the same journals."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        settings = {
            "store.dsn": self._dsn,
            "catalogue.folder": str(self._folder / "catalogue"),
            "metering.journal_folder": str(folder / "journal"),
            "metering.adopt_seconds": 1.0,
            "ingress.workers": 2,
        }
        gateway = GatewayProcess(folder, settings, sources)
        self._stack.callback(gateway.stop)
        return gateway

    def migrate(self) -> list[str]:
        """Run the new version's migrations; the names that it applied."""
        told = self._run(Path(CHILD_ENVIRONMENT["PYTHONPATH"]), "migrate", "--json")
        applied: list[str] = json.loads(told)["applied"]
        return applied

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self._dsn, autocommit=True)

    def _old(self, *words: str) -> str:
        return self._run(self.old_sources, *words)

    def _run(self, sources: Path, *words: str) -> str:
        environment = {
            "PATH": os.defpath,
            "PYTHONPATH": str(sources),
            "PENSTOCK_STORE_DSN": self._dsn,
        }
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            env=environment,
            cwd=self._folder,
            timeout=_COMMAND_SECONDS,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
