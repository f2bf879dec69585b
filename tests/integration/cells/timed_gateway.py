"""A gateway that writes down how much CPU time its event loop takes between two turns.

Run as a program, in the place of `penstock gateway`. A heartbeat on the loop compares the CPU time
of the loop's own thread: what comes between two beats is what all other requests have to wait for,
whatever else runs on the machine. Beats that come late are lines of the file that the first
argument names, in milliseconds.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvicorn.config
import uvloop

from penstock.cli.gateway_process import main

_BEAT_SECONDS: Final = 0.001
_WRITTEN_SECONDS: Final = 0.005


class _Heartbeat:
    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._file = file
        self._before = 0.0
        loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._before = time.thread_time()
        self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        took = time.thread_time() - self._before
        if took > _WRITTEN_SECONDS:
            with self._file.open("a") as file:
                file.write(f"{took * 1000:.1f}\n")
        self._begin()


def timed_loop() -> asyncio.AbstractEventLoop:
    loop = uvloop.new_event_loop()
    _Heartbeat(loop, _file)
    return loop


def loop_factory(*, use_subprocess: bool) -> Callable[[], asyncio.AbstractEventLoop]:
    """In uvicorn's own form."""
    del use_subprocess
    return timed_loop


if __name__ == "__main__":
    _file = Path(sys.argv[1])
    sys.argv[1:] = [sys.argv[-1]]
    uvicorn.config.LOOP_FACTORIES["uvloop"] = "__main__:loop_factory"
    main()
