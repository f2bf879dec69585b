"""kill -9 of a process and of everything that it started."""

import contextlib
import os
import signal
from pathlib import Path


def kill_tree(root: int) -> None:
    """The parent first, so that it starts nobody again. Processes that have ended are passed by."""
    for pid in tree(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def tree(root: int) -> list[int]:
    """The process and its descendants, the parents before their children."""
    found = [root]
    for pid in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            found += map(int, children)
    return found
