"""Runs the processes of `penstock up`: restarts each one that ends, and stops it on request.

They have sessions of their own, so that Ctrl-C in a terminal reaches only `up`, which knows the
order. Their logs are files of bounded size.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.cli.exit_codes import ExitCode
from penstock.clock import Clock
from penstock.telemetry.log_file import open_log

_PAUSE_FIRST_SECONDS = 0.5
_PAUSE_SECONDS_MAX = 30.0
# A child that ran this long had started well, and its next failure counts as the first.
_STEADY_SECONDS = 60.0
# A child that failed this often and never ran well is given up.
_FAILURES_MAX = 5
_LOOK_SECONDS = 5.0
_LOG_BYTES_MAX = 16 * 2**20
_TAIL_BYTES = 4096
# Exit codes that a restart cannot change.
_FINAL = frozenset({ExitCode.USAGE})


class ChildPlan(msgspec.Struct, frozen=True):
    """How one child is started. `on_line` gets its standard output, line by line."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    on_line: Callable[[bytes], None] | None = None


class Child:
    """One `python -m penstock NAME`, kept running until `stop`."""

    def __init__(
        self,
        plan: ChildPlan,
        clock: Clock,
        *,
        say: Callable[[str], None],
        on_start: Callable[[], None],
        give_up: Callable[[str, int], None],
    ) -> None:
        self.plan = plan
        self._clock = clock
        self._say = say
        self._on_start = on_start
        self._give_up = give_up
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int:
        """Return the process id; 0 while there is no process."""
        return self._process.pid if self._process is not None else 0

    async def keep(self) -> None:
        """Start the process, and restart it, until `stop` or until it is given up."""
        failures = 0
        has_been_steady = False
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            is_steady = self._clock.monotonic() - began >= _STEADY_SECONDS
            has_been_steady = has_been_steady or is_steady
            failures = 1 if is_steady else failures + 1
            how = f"{self.plan.name} ended ({_how(code)})"
            if code in _FINAL or (failures >= _FAILURES_MAX and not has_been_steady):
                self._give_up(f"{how}: {self._last_words()}", code)
                return
            pause = min(_PAUSE_FIRST_SECONDS * 2 ** (failures - 1), _PAUSE_SECONDS_MAX)
            self._say(f"{how}; starting it again in {pause:.1f} s (log: {self.plan.log})")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    async def stop(self, grace_seconds: float, hurried: asyncio.Event) -> None:
        """Send SIGTERM; SIGKILL to the whole group after the grace or once `hurried` is set."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        _signal(process.pid, signal.SIGTERM, is_group=False)
        async with asyncio.TaskGroup() as group:
            waits = {group.create_task(process.wait()), group.create_task(hurried.wait())}
            await asyncio.wait(waits, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        if process.returncode is None:
            _signal(process.pid, signal.SIGKILL, is_group=True)
            await process.wait()

    async def _run_once(self) -> int:
        plan = self.plan
        with open_log(plan.log) as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "penstock", *plan.arguments),
                env=plan.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if plan.on_line else log,
                stderr=log,
                start_new_session=True,
            )
        self._process = process
        self._on_start()
        if self._stopping.is_set():
            # `stop` was called while the process started, and found none to signal.
            _signal(process.pid, signal.SIGTERM, is_group=False)
        try:
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(self._read(process))
                while process.returncode is None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await process.wait()
                    _bound(plan.log)
                reading.cancel()
        finally:
            self._process = None
        return await process.wait()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None or self.plan.on_line is None:
            return
        while line := await process.stdout.readline():
            self.plan.on_line(line)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError), self.plan.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read(_TAIL_BYTES).decode(errors="replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"see {self.plan.log}"


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _signal(pid: int, number: signal.Signals, *, is_group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if is_group else os.kill)(pid, number)


def _bound(log: Path) -> None:
    """Move a full log to `.log.1`; the child appends, so few lines are lost at most."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > _LOG_BYTES_MAX:
            with log.open("rb") as full, open_log(log.with_suffix(".log.1"), is_new=True) as kept:
                shutil.copyfileobj(full, kept)
            os.truncate(log, 0)
