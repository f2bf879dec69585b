"""Starts control, keeper and gateway of one run together, and ends them in order."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable

import msgspec

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.progress import ProgressLine
from penstock.cli.stop_signals import StopSignals
from penstock.cli.up.children import Child, ChildPlan
from penstock.cli.up.order import Order
from penstock.cli.up.postgres import OwnPostgres
from penstock.cli.up.sandbox_child import sandbox_arguments, sandbox_environment
from penstock.cli.up.state import UP, ProcessMark, Running, UpState
from penstock.clock import Clock
from penstock.config import Config
from penstock.errors import StoreUnavailable
from penstock.fleet.processes import start_ticks
from penstock.fleet.progress import ReplicaProgress

# How much longer than its own limits a child may take before it is killed.
_MARGIN_SECONDS = 10.0
# Shorter than the pause before a child's restart, which would fail without the folder.
_LOOK_SECONDS = 0.25
# How long a child may take to end without the folder.
_GONE_SECONDS = 2.0

Say = Callable[[str], None]


class Crew:
    """The processes of one run. `config` is the one that the children load."""

    def __init__(
        self,
        order: Order,
        config: Config,
        environment: dict[str, str],
        *,
        progress: ProgressLine,
        clock: Clock,
        say: Say,
    ) -> None:
        self._config = config
        self._environment = environment
        self._state = UpState(order.state)
        self._progress = progress
        self._clock = clock
        self._say = say
        self._signals: StopSignals | None = None
        self._postgres: OwnPostgres | None = None
        self._failure: CommandFailed | None = None
        self._control = self._child("control")
        self._keeps_engines = order.keeps_engines
        ending = () if order.keeps_engines else ("--stop-replicas",)
        self._keeper = self._child("keeper", *ending, "--json", on_line=self._hear)
        self._gateway = self._child("gateway")
        kind = order.sandbox
        own = sandbox_environment(environment)
        self._sandbox = (
            None if kind is None else self._child(*sandbox_arguments(kind), environment=own)
        )

    @property
    def _children(self) -> list[Child]:
        sandbox = [] if self._sandbox is None else [self._sandbox]
        return [self._gateway, *sandbox, self._keeper, self._control]

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids by name; 0 for a child that does not run."""
        pids = {UP: os.getpid(), **{child.plan.name: child.pid for child in self._children}}
        if self._postgres is not None:
            pids["postgres"] = self._postgres.pid
        return pids

    async def run(
        self,
        signals: StopSignals,
        postgres: OwnPostgres | None,
        on_up: Callable[[], Awaitable[None]],
    ) -> None:
        """Run until a signal, or until a process is given up; then end everything."""
        self._signals, self._postgres = signals, postgres
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(child.keep()) for child in reversed(self._children)]
            beside = [
                group.create_task(self._keep_postgres()),
                group.create_task(self._watch_folder()),
                group.create_task(_run(on_up)),
            ]
            await signals.asked.wait()
            for task in beside:
                task.cancel()
            await self._end(signals)
            await asyncio.wait(keeping)
        if self._failure is not None:
            raise self._failure

    async def _end(self, signals: StopSignals) -> None:
        self._progress.close()
        if self._state.is_gone:
            await self._end_at_once()
            return
        self._say("stopping; Ctrl-C again does not wait for streams")
        fleet = self._config.fleet
        drain = self._config.ingress.drain_seconds + _MARGIN_SECONDS
        await self._gateway.stop(drain, signals.hurried)
        if self._sandbox is not None:
            await self._sandbox.stop(_MARGIN_SECONDS, signals.hurried)
        puller = self._config.puller
        longest = fleet.drain_seconds + fleet.stop_grace_seconds + 6 * _MARGIN_SECONDS
        longest += puller.drain_seconds + puller.last_write_seconds
        await self._keeper.stop(longest + _MARGIN_SECONDS, signals.abandoned)
        if signals.abandoned.is_set() or self._keeps_engines:
            seconds = fleet.orphan_seconds
            self._say(
                f"engines that still run end by themselves within {seconds:.0f} s, or by"
                " `penstock stop`; a `penstock up` before that takes them over"
            )
        await self._control.stop(_MARGIN_SECONDS, signals.hurried)

    async def _end_at_once(self) -> None:
        """End everything without a folder: nothing can be drained, and nothing may be restarted."""
        hurried = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.stop(_GONE_SECONDS, hurried))

    def _child(
        self,
        *arguments: str,
        on_line: Callable[[bytes], None] | None = None,
        environment: dict[str, str] | None = None,
    ) -> Child:
        name = arguments[0]
        plan = ChildPlan(
            name=name,
            arguments=(*arguments, "--parent-pid", str(os.getpid())),
            environment=self._environment if environment is None else environment,
            log=self._state.logs / f"{name}.log",
            on_line=on_line,
        )
        return Child(plan, self._clock, say=self._say, on_start=self._note, give_up=self._give_up)

    def _hear(self, line: bytes) -> None:
        assert self._signals is not None
        # Other output of a keeper is no report, and must not end the run.
        with contextlib.suppress(msgspec.DecodeError):
            news = msgspec.json.decode(line, type=ReplicaProgress)
            if not self._signals.asked.is_set():
                self._progress.take(news)

    def _note(self) -> None:
        """Record the running processes, for `doctor` and for the run after a kill -9."""
        ingress, default = self._config.ingress, self._config.catalogue.default_model
        marks = [ProcessMark(name, pid, start_ticks(pid)) for name, pid in self.pids.items() if pid]
        running = Running(
            ingress.host,
            ingress.port,
            ingress.metrics_port,
            tuple(marks),
            default,
            self._config.control.port,
        )
        self._state.write_running(running)

    def _give_up(self, message: str, code: int) -> None:
        known = code in frozenset(ExitCode) - {ExitCode.OK}
        self._failure = CommandFailed(message, ExitCode(code) if known else ExitCode.FAILED)
        assert self._signals is not None
        self._signals.ask()

    async def _watch_folder(self) -> None:
        while not self._state.is_gone:  # noqa: ASYNC110 - a file system has no event to wait for
            await asyncio.sleep(_LOOK_SECONDS)
        self._say("the state folder is gone; ending")
        self._give_up(f"The state folder {self._state.root} was removed.", ExitCode.FAILED)

    async def _keep_postgres(self) -> None:
        if self._postgres is None:
            return
        try:
            await self._postgres.keep()
        except StoreUnavailable as failure:
            self._give_up(failure.message, ExitCode.NO_POSTGRES)


async def _run(act: Callable[[], Awaitable[None]]) -> None:
    await act()
