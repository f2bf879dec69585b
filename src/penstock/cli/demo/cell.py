"""Runs the demo's own cell: `penstock up` in a temporary folder.

The cell reads only its own configuration, so that a demo does not use an operator's database.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec

from penstock.cli.demo.engines import end_process
from penstock.cli.demo.plan import REPLICAS, DemoPlan
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller
from penstock.cli.up.state import UpState
from penstock.config import CACHE_VARIABLE, PREFIX, cpu_engine_folder, environment_for, toml
from penstock.errors import ReplicaUnreachable
from penstock.fleet.replica_files import StateFolder
from penstock.telemetry.log_file import open_log

_STOP_SECONDS: Final = 90.0
_TAIL_LINES: Final = 3
_HEALTH_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.5


class DemoCell(msgspec.Struct, frozen=True):
    """A ready cell: its gateway, and its engines' own addresses."""

    base_url: str
    account: str
    key: str
    model: str
    engines: tuple[str, ...]


class _Ready(msgspec.Struct):
    base_url: str
    account: str
    key: str
    model: str


@contextlib.asynccontextmanager
async def demo_cell(plan: DemoPlan, engines: tuple[str, ...]) -> AsyncIterator[DemoCell]:
    """Run a cell with `engines`, which already run; without any, the cell starts its own."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        settings = folder / "penstock.toml"
        settings.write_text(_settings(plan, engines))
        with open_log(folder / "up.log") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "penstock.cli.demo_cell_process", str(os.getpid())),
                *("--config", str(settings), "up", "--state", str(folder / "state")),
                *("--port", "0", "--metrics-port", "0", "--json"),
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                # Ctrl-C in a terminal must reach only the demo, which ends all in order.
                start_new_session=True,
            )
        try:
            ready = await _announced(process, plan, folder / "up.log")
            yield DemoCell(
                base_url=ready.base_url,
                account=ready.account,
                key=ready.key,
                model=ready.model,
                engines=engines or await _own_engines(folder / "state", plan),
            )
        finally:
            await end_process(process, _STOP_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _announced(process: asyncio.subprocess.Process, plan: DemoPlan, log: Path) -> _Ready:
    assert process.stdout is not None
    line = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(plan.start_seconds_max):
            line = await process.stdout.readline()
    if line:
        return msgspec.json.decode(line, type=_Ready)
    last = await asyncio.to_thread(_last_words, log)
    raise CommandFailed(f"The demo's cell did not start: {last or 'it said nothing'}")


def _last_words(log: Path) -> str:
    return " ".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])


def _settings(plan: DemoPlan, engines: tuple[str, ...]) -> str:
    if not engines:
        home = cpu_engine_folder()
        if not (home / "venv" / ".ready").exists():
            raise CommandFailed(
                "--real needs the engine for CPUs: install it with deploy/cpu-engine/setup"
                " (about 4 minutes).",
                ExitCode.USAGE,
            )
        entry = f"[[fleet.replicas]]\nmodel = {toml(plan.model)}\ncount = {REPLICAS}\n"
        return f"[fleet]\nengine_home = {toml(str(home))}\n\n{entry}"
    return "\n".join(
        f'[[fleet.replicas]]\nmodel = {toml(plan.model)}\nprovider = "attach"\nurl = {toml(url)}\n'
        f"slots_live = {plan.engine.slots}\nhas_priority = true\n"
        for url in engines
    )


def _environment() -> dict[str, str]:
    """Return this process's environment, without Penstock's settings."""
    kept = environment_for({})
    return {
        name: value
        for name, value in kept.items()
        if name == CACHE_VARIABLE or not name.startswith(PREFIX)
    }


async def _own_engines(state: Path, plan: DemoPlan) -> tuple[str, ...]:
    """Return the cell's engines once all are healthy; `up` itself waits for one only."""
    folder, caller = StateFolder(UpState(state).fleet), HttpCaller(seconds=_HEALTH_SECONDS)

    def look() -> tuple[str, ...]:
        return tuple(file.url for file in folder.read_all() if _is_healthy(caller, file.url))

    try:
        async with asyncio.timeout(plan.start_seconds_max):
            found: tuple[str, ...] = ()
            while len(found) < REPLICAS:
                await asyncio.sleep(_LOOK_SECONDS)
                found = await asyncio.to_thread(look)
    except TimeoutError:
        raise CommandFailed("Not all engines of the demo came up in time.") from None
    return found


def _is_healthy(caller: HttpCaller, url: str) -> bool:
    try:
        return caller.get(url, "/health").status == 200
    except ReplicaUnreachable:
        return False
