"""A second Ctrl-C: whoever stops us does not want to wait for what still runs.

uvicorn leaves at once then, and asyncio cancels the tasks that it finds. A request that waits for
its engine alone is no task (`engine/running.py`), and a worker beside others is ended by its own
SIGTERM before that: its clients heard nothing, and its bill was left to the next start, as if it
had been killed. So what runs is aborted first, and uvicorn hears of the signal when that is done.
"""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)
# Many turns of the loop, of which ending a request takes three.
_ABORT_SECONDS: Final = 0.2


@contextlib.contextmanager
def on_second_signal(abort: Callable[[], None]) -> Iterator[None]:
    """While the block lasts, and inside of uvicorn's handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    is_stopping = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        # A worker that hears the terminal's Ctrl-C hears its parent's SIGTERM after that.
        if is_stopping and number == signal.SIGINT:
            loop.call_soon_threadsafe(abort)
            loop.call_soon_threadsafe(loop.call_later, _ABORT_SECONDS, pass_on, number, None)
            return
        is_stopping = True
        pass_on(number, frame)

    for number in _NUMBERS:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            # On a forced way out uvicorn has put others in their place by now.
            if signal.getsignal(number) is hear:
                signal.signal(number, handler)
