"""Ends a process with the one that started it, however that one ended: kill -9 included.

Imports little: every gateway worker loads it.
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
        # An orphan is given to another parent at once, so its number is all there is to look at.
        while os.getppid() == pid:
            time.sleep(_LOOK_SECONDS)
        on_lost()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def end_with_parent(pid: int) -> None:
    """End this process in its usual order, as by SIGTERM, when its parent is gone."""
    watch_parent(pid, lambda: os.kill(os.getpid(), signal.SIGTERM))
