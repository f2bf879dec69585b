"""What is compared: programs that stand between a client and the upstream, each on one core."""

import http.client
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import process_tree

CANDIDATE_CORE = 0
LOAD_CORE = 1
UPSTREAM_PORTS = 4
# A program that runs in valgrind takes a minute on a busy machine.
_READY_SECONDS = 240.0
_STOP_SECONDS = 15.0


class Candidate(msgspec.Struct):
    """A running program that takes chat completions on a port."""

    name: str
    port: int
    # None for the bare upstream, whose cost is not compared.
    process: subprocess.Popen[bytes] | None = None
    workers: int = 1
    path: str = "/v1/chat/completions"
    key: str = "sk-benchmark"
    model: str = "m"
    session_header: str = "x-session-id"
    after_stop: Callable[[], None] | None = None

    def load_arguments(self) -> list[str]:
        """How the load generator speaks to it."""
        fields = {
            "-p": str(self.port),
            "-u": self.path,
            "-k": self.key,
            "-m": self.model,
            "-h": self.session_header,
            "-x": "200",
        }
        return [word for pair in fields.items() for word in pair]

    def stop(self) -> None:
        if self.process is not None:
            stop_process(self.process)
        if self.after_stop is not None:
            self.after_stop()


def start_upstream(
    program: Path, *, has_short_texts: bool = False
) -> tuple[subprocess.Popen[bytes], list[int]]:
    """The upstream on four ports in a row, and those ports."""
    base = free_ports_in_a_row(UPSTREAM_PORTS)
    command = [str(program), str(base), str(UPSTREAM_PORTS)]
    process = start_pinned([*command, *(["short"] if has_short_texts else [])], LOAD_CORE)
    ports = [base + index for index in range(UPSTREAM_PORTS)]
    for port in ports:
        _wait_listening(port, process)
    return process, ports


def start_bare(ports: list[int]) -> Candidate:
    return Candidate(name="bare upstream", port=ports[0])


def start_pinned(
    command: list[str], core: int, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program on one core, silently. taskset becomes the program, so the pid is its own."""
    return start_anywhere(["taskset", "-c", str(core), *command], environment)


def start_anywhere(
    command: list[str], environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program silently, on whatever cores there are."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment)


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """End it in order, or it and its children by force."""
    pids = process_tree.pids_of(process.pid)
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in pids:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        process.wait()


def wait_ready(candidate: Candidate) -> None:
    """Wait until it answers a chat completion; it is ended if it does not."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if candidate.process is not None and candidate.process.poll() is not None:
            break
        if _answers(candidate):
            return
        time.sleep(0.1)
    if candidate.process is not None:
        stop_process(candidate.process)
    raise RuntimeError(f"{candidate.name} did not become ready")


def _answers(candidate: Candidate) -> bool:
    message = {"role": "user", "content": "ready?"}
    body = {"model": candidate.model, "messages": [message], "max_tokens": 1}
    headers = {
        "content-type": "application/json",
        "authorization": f"Bearer {candidate.key}",
        candidate.session_header: "ready",
    }
    connection = http.client.HTTPConnection("127.0.0.1", candidate.port, timeout=5)
    try:
        connection.request("POST", candidate.path, msgspec.json.encode(body), headers)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _wait_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    stop_process(process)
    raise RuntimeError("the upstream did not start")


def free_ports_in_a_row(count: int) -> int:
    """The first of `count` ports that are free now."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        if first + count <= 65535 and all(_is_free(first + index) for index in range(count)):
            return first
    raise RuntimeError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
