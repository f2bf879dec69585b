"""Runs one machine's whole installation, from the first process to the last.

Up: Postgres, migrations, account, then control, keeper and gateway. Down: the gateway drains, the
replicas are drained and stopped, control, Postgres. After a kill -9 all processes end soon: each
child watches this process, and each engine's supervisor watches its keeper.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

import msgspec
from rich.markup import escape

from penstock.cli.http_call import HttpCaller
from penstock.cli.output import error_console
from penstock.cli.ports import check_ports
from penstock.cli.progress import ProgressLine
from penstock.cli.stop_signals import StopSignals
from penstock.cli.up.announcement import Announcement
from penstock.cli.up.crew import Crew
from penstock.cli.up.first_account import first_account, make_operator_key
from penstock.cli.up.leftovers import end_leftovers
from penstock.cli.up.order import Order, settings_for
from penstock.cli.up.postgres import OwnPostgres
from penstock.cli.up.ready import ReadyWait, console_url, local_address
from penstock.cli.up.sandbox_child import check_sandbox_host
from penstock.cli.up.state import UpState
from penstock.cli.up.wanted import ModelChooser, WantedModels
from penstock.clock import SystemClock
from penstock.config import Config, environment_for, load
from penstock.store import Store, migrate


class _Plan(msgspec.Struct, frozen=True):
    """All that is decided before anything starts."""

    config: Config
    environment: dict[str, str]
    wanted: WantedModels
    caller: HttpCaller
    postgres: OwnPostgres | None


class Machine:
    """One run of `penstock up`."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._state = UpState(order.state)
        self._clock = SystemClock()
        self._console = error_console()
        self._began = 0.0

    async def run(self) -> None:
        """Run until a signal to end. Raises the error that prevents or ends the run."""
        signals = StopSignals()
        self._began = self._clock.monotonic()
        with self._state.held():
            await end_leftovers(self._state)
            plan = await asyncio.to_thread(self._plan)
            async with self._postgres_of(plan), self._run_folder():
                applied = await migrate(plan.config.store.dsn)
                if applied:
                    self._say(f"database: {len(applied)} migrations applied")
                await self._serve(plan, signals)
        self._say("stopped")

    def _plan(self) -> _Plan:
        order = self._order
        loaded = load(order.file)
        engine = loaded.config.engine
        caller = HttpCaller(api_keys=engine.api_keys, ca_file=engine.ca_file)
        wanted = ModelChooser(loaded.config, self._state.models, caller).choose(
            order.models, order.attach, is_imitated=order.is_imitated
        )
        for note in wanted.notes:
            self._say(note)
        dsn = order.dsn or loaded.config.store.dsn
        postgres = None if dsn else OwnPostgres(self._state.postgres, self._say)
        dsn = postgres.dsn if postgres is not None else dsn
        settings = settings_for(order, loaded, wanted, self._state, dsn)
        environment = environment_for(settings, order.file)
        config = load(order.file, environment).config
        if order.sandbox is not None:
            check_sandbox_host(config, order.sandbox)
        ingress = config.ingress
        ports = {"--port": ingress.port, "--metrics-port": ingress.metrics_port}
        check_ports(ingress.host, ports)
        return _Plan(config, environment, wanted, caller, postgres)

    @contextlib.asynccontextmanager
    async def _postgres_of(self, plan: _Plan) -> AsyncIterator[None]:
        if plan.postgres is None:
            yield
            return
        self._say("starting Postgres")
        await plan.postgres.start()
        try:
            yield
        finally:
            await plan.postgres.stop()

    @contextlib.asynccontextmanager
    async def _run_folder(self) -> AsyncIterator[None]:
        # Emptied first, because a killed run leaves its workers' sockets there.
        folder = self._state.run_folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._state.forget_running()

    async def _serve(self, plan: _Plan, signals: StopSignals) -> None:
        config = plan.config
        store = Store(config.store)
        await store.open()
        try:
            credentials, is_new = await first_account(store, self._state)
            if plan.postgres is not None:
                await make_operator_key(store, self._state)
            with ProgressLine(self._console, self._clock) as progress:
                crew = Crew(
                    self._order, config, plan.environment,
                    progress=progress, clock=self._clock, say=self._say,
                )  # fmt: skip

                async def announce() -> None:
                    models = tuple(model.id for model in plan.wanted.models)
                    await ReadyWait(config, store, models, plan.caller).wait()
                    progress.close()
                    ingress = config.ingress
                    address = f"http://{local_address(ingress.host)}"
                    metrics = f"{address}:{ingress.metrics_port}/metrics"
                    Announcement(
                        base_url=f"{address}:{ingress.port}",
                        account=credentials.account,
                        key=credentials.secret,
                        model=models[0],
                        models=models,
                        state=str(self._state.root),
                        metrics_url=metrics if ingress.metrics_port else None,
                        console_url=console_url(config, config.control.port),
                        has_operator_key=plan.postgres is not None,
                        pids=crew.pids,
                        start_seconds=self._clock.monotonic() - self._began,
                    ).print(is_new=is_new, is_json=self._order.is_json)

                await crew.run(signals, plan.postgres, announce)
        finally:
            await store.close()

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]·[/] {escape(text)}", soft_wrap=True)
