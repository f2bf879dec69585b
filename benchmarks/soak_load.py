"""What a soak sends: 64 streams at a time, and about 200 whole answers a second beside them.

Each of four loads runs in slices, with new connections for each: connections come and go, and each
slice has its own quantiles. The loads do not wait for each other.
"""

import subprocess
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from native_programs import Report
from soak_gateway import SoakGateway

STREAMS = 64
# A connection that gets an answer in about 9.5 ms. Few at a short time, not many at a long one: of
# their p50 the gateway's own share is then large enough to be seen growing.
_WHOLE = ("-c", "1", "-b", "1900", "-t", "8", "-i", "8800")
_STREAM = ("-s", "-c", str(STREAMS // 2), "-t", "50", "-i", "20000")
_SHORT = ("-b", "1900")
# 40 messages in 120 KB, and tools.
_AGENT = ("-T", "-b", "120000", "-l", "3017")
_SESSIONS = ("-h", "x-session-id", "-x", "200")
_WORKFLOWS = ("-h", "x-penstock-workflow", "-x", "20")
_SLICE_SECONDS_MIN = 1.0


class Kind(StrEnum):
    """What is sent. Times of different kinds have nothing to do with each other."""

    WHOLE = "whole"
    STREAM = "stream"
    AGENT = "agent"


class Slice(msgspec.Struct, frozen=True):
    """One run of the load generator; times are from the soak's beginning."""

    began: float
    ended: float
    kind: Kind
    report: Report


class SoakLoad:
    """The four loads, each in a thread, until `seconds` have passed or the block is left."""

    def __init__(
        self, gateway: SoakGateway, program: Path, seconds: float, slice_seconds: float
    ) -> None:
        self._steady = [str(program), "-p", str(gateway.port), "-m", "m"]
        self._seconds = seconds
        self._slice_seconds = slice_seconds
        self._shapes = (
            (Kind.WHOLE, ("-k", gateway.free_key, *_WHOLE, *_SESSIONS)),
            (Kind.WHOLE, ("-k", gateway.limited_key, *_WHOLE, *_WORKFLOWS)),
            (Kind.STREAM, ("-k", gateway.free_key, *_STREAM, *_SHORT, *_WORKFLOWS)),
            (Kind.AGENT, ("-k", gateway.limited_key, *_STREAM, *_AGENT, *_SESSIONS)),
        )
        self._is_over = threading.Event()
        self._threads = ThreadPoolExecutor(len(self._shapes))
        self._runs: list[Future[list[Slice]]] = []
        self.began = 0.0

    def is_running(self) -> bool:
        return not all(run.done() for run in self._runs)

    def slices(self) -> list[Slice]:
        """All that was sent, once it has ended."""
        return [each for run in self._runs for each in run.result()]

    def _run(self, kind: Kind, shape: tuple[str, ...]) -> list[Slice]:
        slices = []
        while not self._is_over.is_set():
            began = time.monotonic() - self.began
            seconds = min(self._slice_seconds, self._seconds - began)
            if seconds < _SLICE_SECONDS_MIN:
                break
            command = [*self._steady, *shape, "-d", f"{seconds:.2f}"]
            run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            report = msgspec.json.decode(run.stdout, type=Report)
            slices.append(Slice(began, time.monotonic() - self.began, kind, report))
        return slices

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        self._runs = [self._threads.submit(self._run, *shape) for shape in self._shapes]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._threads.shutdown()
