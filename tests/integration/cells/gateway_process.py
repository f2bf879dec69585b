"""`penstock gateway` as a child process, set up by environment variables as an operator would.

It ends by the pid it was started with; its log is a file that a test can read.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

import penstock
from penstock.telemetry.metrics import Snapshot

# A child runs the package that the tests run, be it the sources or the compiled one.
CHILD_ENVIRONMENT = {
    "PATH": os.defpath,
    "PYTHONPATH": str(Path(penstock.__file__).parent.parent),
}
_START_SECONDS = 30.0
_STOP_SECONDS = 30.0
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")

# Short, so that tests need not wait for what a production gateway is patient with.
_QUICK = {
    "ingress.drain_seconds": 1,
    "fleet.roster_poll_seconds": 0.1,
    "routing.eject_seconds": 0.1,
    "routing.probe_seconds": 0.1,
    "serving.retry_burst": 1000,
    "policy.refresh_seconds": 0.2,
}

Settings = Mapping[str, object]


class GatewayProcess:
    """`settings` are `room.name` to value; `folder` takes its log and its workers' sockets.

    `sources` has the package that it runs, unless that is the one that the tests run.
    """

    def __init__(self, folder: Path, settings: Settings, sources: Path | None = None) -> None:
        self._folder = folder
        package = {} if sources is None else {"PYTHONPATH": str(sources)}
        self._child_environment = {**CHILD_ENVIRONMENT, **package}
        self._settings = {**_QUICK, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        # Where its log goes instead of into `log_file`: a descriptor.
        self.stderr: int | None = None
        # Another program that becomes a gateway may stand here.
        self.command = [sys.executable, "-m", "penstock", "gateway"]
        self.port = 0
        self.metrics_port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        self.port, self.metrics_port = free_port(), free_port()
        run_folder = self._folder / "run"
        run_folder.mkdir(exist_ok=True)
        settings = {
            "ingress.port": self.port,
            "ingress.metrics_port": self.metrics_port,
            "ingress.run_folder": str(run_folder),
            **self._settings,
        }
        # The gateway ends with this process, should that be killed before it can end the gateway.
        command = [*self.command, "--parent-pid", str(os.getpid())]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log if self.stderr is None else self.stderr,
                env={**self._child_environment, **_environment(settings)},
                cwd=self._folder,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise
        return self

    def terminate(self) -> None:
        """Send SIGTERM, and do not wait."""
        assert self._process is not None
        self._process.terminate()

    def wait(self, seconds: float = _STOP_SECONDS) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self) -> None:
        """End it and its workers, by force if they do not end by themselves."""
        if self._process is None or self._process.poll() is not None:
            return
        workers = self.worker_pids()
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()

    def worker_pids(self) -> list[int]:
        """The processes that serve requests: one per socket in the run folder that is alive."""
        pids = [int(path.stem) for path in (self._folder / "run").glob("*.sock")]
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    def worker_snapshot(self, pid: int) -> Snapshot:
        """One worker's own numbers, before they are added to the others'."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self._folder / "run" / f"{pid}.sock"))
            parts = []
            while data := connection.recv(65536):
                parts.append(data)
        return msgspec.json.decode(b"".join(parts), type=Snapshot)

    @property
    def log_file(self) -> Path:
        return self._folder / "gateway.log"

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace")

    def request_lines(self) -> list[dict[str, Any]]:
        """The one line that each request leaves."""
        lines = [json.loads(line) for line in self.log_text().splitlines() if line[:1] == "{"]
        return [line for line in lines if line.get("event") == "request"]

    def request_line(self, request_id: str) -> dict[str, Any]:
        """The line of one request, as soon as it is written; there is exactly one."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.request_lines() if line["request"] == request_id]

        eventually(lambda: bool(found()))
        (line,) = found()
        return line

    def metrics(self) -> dict[tuple[str, str], float]:
        """Every sample of the page: (name, labels as they are written) to value."""
        _, page = fetch(self.metrics_port, "/metrics")
        samples = [_SAMPLE.match(line) for line in page.splitlines() if line[:1] != "#"]
        return {(m[1], m[2] or ""): float(m[3]) for m in samples if m is not None}

    def metric(self, name: str, *labels: str) -> float:
        """The sum over the samples of this name that carry all these labels (`model="m"`)."""
        return sum(
            value
            for (found, text), value in self.metrics().items()
            if found == name and all(label in text for label in labels)
        )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        assert self._process is not None
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if fetch(self.port, "/healthz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"the gateway did not start:\n{self.log_text()[-4000:]}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def eventually(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until it is so, and fail when it does not become so."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_so():
            return
        time.sleep(0.02)
    raise AssertionError(f"this did not come true within {seconds} s")


def fetch(port: int, path: str) -> tuple[int, str]:
    """GET a page of this machine: its status and text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _environment(settings: Settings) -> dict[str, str]:
    return {
        f"PENSTOCK_{name.replace('.', '_').upper()}": _as_text(value)
        for name, value in settings.items()
    }


def _as_text(value: object) -> str:
    """As in TOML; plain text is not quoted."""
    return value if isinstance(value, str) else json.dumps(value)
