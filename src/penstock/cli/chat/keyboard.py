"""Keeps what is typed during an answer out of the answer."""

import contextlib
import sys
from collections.abc import Iterator

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
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    silent = list(before)
    # The fourth flags are the local ones.
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        # Not TCSAFLUSH, which would drop what was typed.
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
