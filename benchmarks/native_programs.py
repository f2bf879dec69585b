"""Builds the C upstream and load generator, and runs the load generator."""

import subprocess
from pathlib import Path

import msgspec

_SOURCES = Path(__file__).parent / "native"
_OVERTIME_SECONDS = 30.0
_PROGRAMS = {
    "upstream": ["upstream.c", "vllm_answer.c"],
    "loadgen": ["loadgen.c", "answer_reader.c", "bodies.c", "conversation.c", "samples.c"],
}


class Quantiles(msgspec.Struct, frozen=True):
    """Microseconds; -1 if nothing was measured."""

    p10: float
    p50: float
    p95: float
    p99: float


class Report(msgspec.Struct, frozen=True):
    """What the load generator prints."""

    requests: int
    failures: int
    unfinished: int
    elapsed_seconds: float
    requests_per_second: float
    events: int
    events_per_second: float
    body_bytes: int
    latency_us: Quantiles
    first_token_us: Quantiles
    chunk_delay_us: Quantiles
    failure: str


class LoadFailedError(RuntimeError):
    """A request failed, so that the figures of the run mean nothing."""


def build(folder: Path) -> None:
    """Compile both programs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, sources in _PROGRAMS.items():
        files = [str(_SOURCES / source) for source in sources]
        command = ["gcc", "-O2", "-Wall", "-Wextra", "-o", str(folder / name), *files]
        subprocess.run(command, check=True)


def run_load(program: Path, arguments: list[str], seconds: float, core: int) -> Report:
    """Run the load generator on one core; raises LoadFailedError unless every request succeeded."""
    command = ["taskset", "-c", str(core), str(program), "-d", str(seconds), *arguments]
    run = subprocess.run(
        command, capture_output=True, timeout=seconds + _OVERTIME_SECONDS, check=False
    )
    if run.returncode != 0:
        raise LoadFailedError(f"{' '.join(command)}: {run.stdout.decode()}{run.stderr.decode()}")
    return msgspec.json.decode(run.stdout, type=Report)


def read_bodies(program: Path, arguments: list[str], count: int) -> list[bytes]:
    """The bodies of the first requests that a connection would send, without sending any."""
    command = [str(program), "-B", "-n", str(count), *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout.splitlines()
