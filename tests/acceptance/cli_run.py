"""Runs of `penstock up` for tests: started in a folder, asked, looked for, and always ended."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app

PENSTOCK = (sys.executable, "-m", "penstock")
READY_SECONDS = 60.0
T = TypeVar("T")


class Up:
    """One run of `penstock up` in a state folder. Ends with the test, by pid."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        self.port = free_port()
        ports = ("--port", str(self.port), "--metrics-port", str(free_port()))
        self.process = subprocess.Popen(
            [*PENSTOCK, "up", "--state", str(state), *ports, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=state.parent,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self.out.extend, args=(self.process.stdout,)),
            threading.Thread(target=self.err.extend, args=(self.process.stderr,)),
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, mark: str) -> str:
        """The first line on standard output that begins with `mark`."""

        def look() -> str | None:
            if self.process.poll() is not None:
                pytest.fail(f"up ended with {self.process.returncode}: {''.join(self.err)}")
            return next((line for line in list(self.out) if line.startswith(mark)), None)

        return until(look, READY_SECONDS)

    def ready(self) -> dict[str, Any]:
        """The one line of --json."""
        found: dict[str, Any] = json.loads(self.wait_for("{"))
        return found

    def signal(self, number: signal.Signals, seconds: float = 30.0) -> int:
        """Send it to `up` alone, and wait for its end."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for pid in pids_with(self.state):
            os.kill(pid, signal.SIGKILL)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(look: Callable[[], T | None], seconds: float) -> T:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail(f"not so after {seconds} s")


def pids_with(state: Path) -> list[int]:
    """Every process that has the state folder in its command line, environment or output."""
    mark = os.fsencode(state)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            words += os.fsencode((entry / "fd" / "1").readlink())
        except OSError:
            continue
        if mark in words:
            found.append(int(entry.name))
    return found


def chat(ready: dict[str, Any], key: str | None = None) -> int:
    try:
        return httpx.post(
            f"{ready['base_url']}/v1/chat/completions",
            headers={"authorization": f"Bearer {key or ready['key']}"},
            json={"model": ready["model"], "messages": [{"role": "user", "content": "Hi"}]},
        ).status_code
    except httpx.TransportError:
        return 0


def is_alive(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def run_up(state: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A run that shall end by itself."""
    command = [*PENSTOCK, "up", "--state", str(state), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def run(state: Path, *arguments: str) -> Result:
    """A short command, in this process: starting Python costs more than all that it does."""
    return CliRunner().invoke(app, [*arguments, "--state", str(state)])


def run_json(state: Path, *arguments: str) -> Any:
    done = run(state, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
