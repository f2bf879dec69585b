"""Reads large bodies in a thread of their own, so that no other request waits for them.

Decoding 32 MB takes tens of milliseconds, and a hundred if its texts are full of escapes. That must
not block the event loop, so a body above a size is read here. There is one thread,
because Python runs one at a time anyway.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.errors import Error

# Bodies up to this size, whatever they contain, block the event loop for less than 50 ms.
INLINE_BYTES_MAX: Final = 320 * 1024
# The same for items of the Responses API, which may have to be rendered as chat.
INLINE_ITEMS_BYTES_MAX: Final = 128 * 1024

T = TypeVar("T")


class ReadingThread:
    """Runs one call after another. Close it when nothing is read any more."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-bodies")

    async def run(self, read: Callable[[], T]) -> T:
        """Call `read` in the thread, after all calls that came before."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, read)
        except Error as refused:
            # The frames in the traceback would hold the body until garbage collection.
            raise refused.with_traceback(None) from None

    def close(self) -> None:
        """End the thread when its current call returns."""
        self._thread.shutdown(wait=False, cancel_futures=True)
