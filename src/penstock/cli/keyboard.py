"""Keeps what is typed out of what is printed, and reads single keys."""

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator

try:
    import termios
except ImportError:  # pragma: no cover - a system without terminals of this kind
    termios = None  # type: ignore[assignment]


@contextlib.contextmanager
def unseen_typing() -> Iterator[None]:
    """Turn off the terminal's echo inside the block.

    What is typed meanwhile is kept, and appears at the next prompt. Ctrl-C works as before.
    """
    if termios is None or not sys.stdin.isatty():
        yield
        return
    with _without(termios.ECHO):
        yield


@contextlib.contextmanager
def pressed_keys() -> Iterator[Callable[[], str]]:
    """Give a function that returns the keys pressed since its last call; they are not printed.

    Without a terminal there are none. Ctrl-C works as before.
    """
    if termios is None or not sys.stdin.isatty():
        yield lambda: ""
        return
    with _without(termios.ECHO | termios.ICANON):
        yield _keys


def _keys() -> str:
    terminal = sys.stdin.fileno()
    if not select.select([terminal], [], [], 0)[0]:
        return ""
    return os.read(terminal, 1024).decode(errors="ignore")


@contextlib.contextmanager
def _without(flags: int) -> Iterator[None]:
    """Turn some of the terminal's local flags off inside the block."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    changed = list(before)
    # The fourth flags are the local ones.
    changed[3] &= ~flags
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        # Not TCSAFLUSH, which would drop what was typed.
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
