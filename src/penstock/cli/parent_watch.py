"""Ends a process when its parent ends, even by kill -9.

Imports little, because every gateway worker loads this module.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.25


def watch_parent(pid: int, on_lost: Callable[[], object]) -> None:
    """Call `on_lost` once, in a thread of its own, when `pid` is not (or no longer) our parent."""

    def watch() -> None:
        # The kernel gives an orphan another parent at once, so comparing the pid is enough.
        while os.getppid() == pid:
            time.sleep(_LOOK_SECONDS)
        on_lost()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def end_with_parent(pid: int) -> None:
    """End this process in its usual order, as by SIGTERM, when its parent is gone."""
    watch_parent(pid, lambda: os.kill(os.getpid(), signal.SIGTERM))
