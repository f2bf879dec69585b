"""Runs a scripted engine as a child process, for tests that need real sockets or a real kill."""

import http.client
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, Self

import msgspec

_START_SECONDS = 20.0
_STOP_SECONDS = 70.0
_CALL_SECONDS = 10.0


class EngineState(msgspec.Struct, frozen=True):
    """The answer of `GET /control/state`. A request has id, headers, body, outcome and tokens."""

    running: int
    waiting: int
    requests: int
    finished: int
    aborted: int
    refused: int
    faulted: int
    probes: int
    last_request: dict[str, Any] | None
    requests_log: list[dict[str, Any]]


class ScriptedEngine:
    """`with ScriptedEngine(model="m", slots=2) as engine:` starts one and always ends it.

    Further options are those of the command line: `queue_limit`, `max_model_len`, `kv_blocks`,
    `log_limit`, `drain_seconds`, `port`, `runner` ("pooling" makes embeddings and nothing else).
    """

    def __init__(self, *, model: str = "scripted", **options: float | str) -> None:
        self.model = model
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.pid = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        arguments = ["--model", self.model]
        for name, value in self._options.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        command = [sys.executable, "-m", "penstock.testing.scripted_engine"]
        command += ["--follow-stdin", *arguments]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)  # noqa: S603 - ours
        # A child that never writes its first line must not block the test for ever.
        watch = threading.Timer(_START_SECONDS, self._process.kill)
        watch.start()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        watch.cancel()
        watch.join()
        if not line:
            self.stop()
            raise RuntimeError(f"the scripted engine did not start: {' '.join(command)}")
        ready = msgspec.json.decode(line)
        self.port, self.pid = ready["port"], ready["pid"]
        return self

    def state(self) -> EngineState:
        """Return what the engine has received and done so far."""
        return msgspec.json.decode(self._call("GET", "/control/state"), type=EngineState)

    def control(self, **keys: object) -> None:
        """Replace the default script; without keys the engine behaves normally again."""
        self._call("POST", "/control", msgspec.json.encode(keys))

    def terminate(self) -> None:
        """Send SIGTERM, and do not wait."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End the engine with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def stop(self) -> None:
        """End the engine with SIGTERM, or with SIGKILL if it does not end in time."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def wait(self, seconds: float = _STOP_SECONDS) -> int:
        """Wait for the engine's end, and return its exit code, negative for a signal."""
        assert self._process is not None
        code = self._process.wait(seconds)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_CALL_SECONDS)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(answer.decode())
        return answer
