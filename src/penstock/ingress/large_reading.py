"""Reads large bodies in a thread of their own, so that no other request waits for them.

To decode 32 MB takes tens of milliseconds, and a hundred where its texts are full of escapes. The
event loop may not stand still for so long: what is longer than `INLINE_BYTES_MAX` is read here.

There is one thread, because Python runs one at a time anyway, and it has a RequestReader of its
own: that one's memory of earlier prompts is never touched by two threads.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.errors import Error
from penstock.ingress.reading import RequestReader

# Read on the event loop, whatever is in them, such bodies take less than 50 ms.
INLINE_BYTES_MAX: Final = 320 * 1024

T = TypeVar("T")


class LargeReading:
    """The thread and its reader. Close it when nothing is read any more."""

    def __init__(self, reader: RequestReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-bodies")

    async def run(self, read: Callable[[RequestReader], T]) -> T:
        """Call `read` in the thread, with its reader, behind all that came before."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, read, self._reader)
        except Error as refused:
            # The frames in its traceback hold the body, and would until a collection.
            raise refused.with_traceback(None) from None

    def close(self) -> None:
        """End the thread when what it does now is done."""
        self._thread.shutdown(wait=False, cancel_futures=True)


async def read_by_size(
    reader: RequestReader, body_bytes: int, read: Callable[[RequestReader], T]
) -> T:
    """Call `read` at once for a short body, and in the thread for a large one."""
    if reader.large is None or body_bytes <= INLINE_BYTES_MAX:
        return read(reader)
    return await reader.large.run(read)
