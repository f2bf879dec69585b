"""Runs the embedded Postgres of one run: starts it first, restarts it, stops it last."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.errors import StoreUnavailable
from penstock.fleet.processes import is_running, start_ticks
from penstock.store.embedded import EmbeddedPostgres

_LOOK_SECONDS = 1.0


class OwnPostgres:
    """The server. `pid` and `started` identify its process; both are 0 before the start."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._server = EmbeddedPostgres(folder)
        self._say = say
        self.pid = 0
        self.started = 0

    @property
    def dsn(self) -> str:
        return self._server.dsn

    async def start(self) -> None:
        """Start the server for the first time; the message of a failure has its own advice."""
        try:
            await self._start()
        except StoreUnavailable as failure:
            raise CommandFailed(failure.message, ExitCode.NO_POSTGRES) from None

    async def _start(self) -> None:
        await asyncio.to_thread(self._server.start)
        # Postgres writes its process id into the first line of this file.
        note = self._folder / "data" / "postmaster.pid"
        self.pid = int(note.read_text().split("\n", 1)[0])
        self.started = start_ticks(self.pid)

    async def keep(self) -> None:
        """Restart the server when it dies. The other processes go on without it until then."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not is_running(self.pid, self.started):
                self._say(f"postgres ended; starting it again (log: {self._folder}/postgres.log)")
                await asyncio.to_thread(self._server.stop)
                await self._start()

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.stop)
