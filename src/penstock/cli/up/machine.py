"""One machine's whole installation, from the first process to the last.

Up: Postgres, migrations, account, then control, keeper and gateway. Down: the gateway drains, the
replicas are drained and stopped, control, Postgres. A kill -9 leaves nothing for long: each child
watches this process, and each engine's supervisor its keeper.
"""

import asyncio
import shutil

import msgspec
from rich.markup import escape

from penstock.cli.http_call import HttpCaller
from penstock.cli.output import error_console
from penstock.cli.ports import check_ports
from penstock.cli.progress import ProgressLine
from penstock.cli.stop_signals import StopSignals
from penstock.cli.up.announcement import Announcement
from penstock.cli.up.crew import Crew
from penstock.cli.up.first_account import first_account
from penstock.cli.up.leftovers import end_leftovers
from penstock.cli.up.order import Order, settings_for
from penstock.cli.up.postgres import OwnPostgres
from penstock.cli.up.ready import ReadyWait, local_address
from penstock.cli.up.state import UpState
from penstock.cli.up.wanted import Chooser, Wanted
from penstock.clock import SystemClock
from penstock.config import Config, environment_for, load
from penstock.store import Store, migrate


class Machine:
    """Made once, run once."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._state = UpState(order.state)
        self._clock = SystemClock()
        self._console = error_console()

    async def run(self) -> None:
        """Until it is told to end. Raises what kept it from running."""
        signals = StopSignals()
        with self._state.held():
            await end_leftovers(self._state)
            loaded = load(self._order.file)
            engine = loaded.config.engine
            caller = HttpCaller(api_keys=engine.api_keys, ca_file=engine.ca_file)
            chooser = Chooser(loaded.config, self._state.models, caller)
            wanted = await asyncio.to_thread(
                chooser.choose, self._order.models, self._order.attach
            )
            for note in wanted.notes:
                self._say(note)
            dsn = self._order.dsn or loaded.config.store.dsn
            postgres = None if dsn else OwnPostgres(self._state.postgres, self._say)
            if postgres is not None:
                dsn = postgres.dsn
            settings = settings_for(self._order, loaded, wanted, self._state, dsn)
            environment = environment_for(settings, self._order.file)
            config = load(self._order.file, environment).config
            ingress = config.ingress
            ports = {"--port": ingress.port, "--metrics-port": ingress.metrics_port}
            check_ports(ingress.host, ports)
            installation = _Installation(config, environment, wanted, caller, postgres)
            try:
                await self._start_postgres(postgres)
                await self._serve(installation, signals)
            finally:
                if postgres is not None:
                    await postgres.stop()
                shutil.rmtree(self._state.run_folder, ignore_errors=True)
                self._state.forget_running()
        self._say("stopped")
