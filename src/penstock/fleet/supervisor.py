"""One small process per launched replica: `python -m penstock.fleet.supervisor STATE_FILE`.

It starts the engine in its own process group, maintains the state file by which a later keeper
adopts it, bounds the engine's log, and ends the whole group on SIGTERM, after `orphan_seconds`
without a keeper, or when the state file is removed. It runs outside the keeper's process tree, so a
replica outlives its keeper. It imports little, because one runs for every replica.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.fleet.processes import boot_id, group_is_ours, signal_group, start_ticks
from penstock.telemetry.log_file import open_log

_TURN_SECONDS = 0.25
_SWEEP_SECONDS = 5.0
# Penstock's own variables may contain the database's password, so engines do not get them.
_PRIVATE_PREFIX = "PENSTOCK_"


def main(arguments: list[str]) -> int:
    """Start a supervisor and its engine in the background. Return 0 once both are recorded."""
    state_file = Path(arguments[0])
    # The keeper waits only for this process. The supervisor is its forked child, which outlives it
    # outside the keeper's process tree, so that the keeper has no child to reap.
    receiver, sender = os.pipe()
    if os.fork() > 0:
        os.close(sender)
        with os.fdopen(receiver, "rb") as answer:
            return 0 if answer.read(1) == b"1" else 1
    os.close(receiver)
    os.setsid()
    supervisor = Supervisor(state_file)
    is_started = supervisor.start()
    os.write(sender, b"1" if is_started else b"0")
    os.close(sender)
    if is_started:
        supervisor.watch()
    return 0


class Supervisor:
    """Owns one engine's process group from its start to its end."""

    def __init__(self, state_file: Path) -> None:
        self._file = state_file
        self._state: dict[str, Any] = json.loads(state_file.read_bytes())
        self._log = state_file.with_name("engine.log")
        self._alive_file = Path(self._state["alive_file"])
        self._is_told_to_stop = False
        self._engine: subprocess.Popen[bytes] | None = None
        self._wake_receiver, self._wake_sender = os.pipe()

    def start(self) -> bool:
        """Start the engine and record all pids; False if it cannot start, or the write fails."""
        self._catch_signals()
        state = self._state
        state.update(boot=boot_id(), supervisor_pid=os.getpid())
        state["supervisor_started"] = start_ticks(os.getpid())
        try:
            with open_log(self._log) as log:
                self._engine = subprocess.Popen(  # noqa: S603 - the catalogue's own command
                    state["argv"],
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as failure:
            self._log.write_text(f"The engine could not be started: {failure}\n")
            state["exit_code"] = 127
            self._write()
            return False
        state["engine_pid"] = self._engine.pid
        state["engine_started"] = start_ticks(self._engine.pid)
        if not self._write():
            self._end(grace_seconds=0.0)
            return False
        return True

    def watch(self) -> None:
        """Watch the engine until it ends by itself or must be ended."""
        engine = self._engine
        assert engine is not None
        seen_alive, seen_at = self._alive_mark(), time.monotonic()
        while engine.poll() is None:
            self._wait(_TURN_SECONDS)
            self._bound_log()
            if (mark := self._alive_mark()) != seen_alive:
                seen_alive, seen_at = mark, time.monotonic()
            is_orphan = time.monotonic() - seen_at > self._state["orphan_seconds"]
            # Without its state file, no keeper could ever find this engine again.
            if self._is_told_to_stop or is_orphan or not self._file.exists():
                self._state["ended_as"] = "orphan" if is_orphan else "stopped"
                self._end(self._state["stop_grace_seconds"])
                break
        self._end(grace_seconds=0.0)
        self._state["exit_code"] = engine.returncode
        self._write()

    def _environment(self) -> dict[str, str]:
        inherited = os.environ  # noqa: TID251 - handed on to the engine, no setting is read
        kept = {k: v for k, v in inherited.items() if not k.startswith(_PRIVATE_PREFIX)}
        return {**kept, **self._state["environment"]}

    def _end(self, grace_seconds: float) -> None:
        """Send SIGTERM, wait up to `grace_seconds`, then SIGKILL what is left of the group."""
        engine = self._engine
        assert engine is not None
        group, started = engine.pid, self._state["engine_started"]
        if engine.poll() is None and grace_seconds > 0:
            engine.terminate()
            deadline = time.monotonic() + grace_seconds
            while engine.poll() is None and time.monotonic() < deadline:
                self._wait(_TURN_SECONDS)
        # The leader's workers may outlive it, and hold GPU memory until they are killed.
        deadline = time.monotonic() + _SWEEP_SECONDS
        while engine.poll() is None or group_is_ours(group, started, self._log):
            signal_group(group, signal.SIGKILL)
            if time.monotonic() > deadline:
                break
            self._wait(0.02)

    def _alive_mark(self) -> int:
        """Return the alive file's time; only its change counts, so that clock changes are safe."""
        try:
            return self._alive_file.stat().st_mtime_ns
        except OSError:
            return 0

    def _bound_log(self) -> None:
        """Rotate a log over its limit. The engine appends, so truncation loses only a few lines."""
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > self._state["log_bytes_max"]:
                _copy(self._log, self._log.with_name("engine.log.1"))
                os.truncate(self._log, 0)

    def _write(self) -> bool:
        """Replace the state file as a whole; False if it cannot be written."""
        fresh = self._file.with_name("state.new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(self._state, file)
            fresh.replace(self._file)
        except OSError:
            return False
        return True

    def _catch_signals(self) -> None:
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGCHLD, _pass)
        # The keeper handles Ctrl-C and a closed terminal, and sends SIGTERM if it must. These are
        # caught, not ignored, because the engine would inherit "ignored".
        signal.signal(signal.SIGINT, _pass)
        signal.signal(signal.SIGHUP, _pass)
        os.set_blocking(self._wake_sender, False)
        os.set_blocking(self._wake_receiver, False)
        signal.set_wakeup_fd(self._wake_sender, warn_on_full_buffer=False)

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_told_to_stop = True

    def _wait(self, seconds: float) -> None:
        """Sleep, but wake at once on a signal."""
        readable, _, _ = select.select([self._wake_receiver], [], [], seconds)
        if readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_receiver, 512)


def _pass(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal that only wakes the loop."""


def _copy(source: Path, target: Path) -> None:
    """Copy a file without shutil, which would load four compression libraries."""
    with source.open("rb") as reader, open_log(target, is_new=True) as writer:
        while block := reader.read(1 << 20):
            writer.write(block)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
