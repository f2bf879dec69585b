"""When the C library's free memory goes back to the system: by the clock, not by each request.

By itself glibc maps long bodies anew for each request, or gives the heap's end back when one is
over: at 300 KB the page faults were four tenths of what a request cost. And what is free inside the
heap it never returns: holes that long bodies, batches of rows and tables that grow have left, about
2 MB of a worker's heap each time.
"""

import asyncio
import ctypes
import functools
from collections.abc import Callable
from typing import Final

# To give back takes half a millisecond, and a tenth to one for each megabyte that there is to give.
_PAUSE_SECONDS: Final = 20.0
# glibc's numbers for these (malloc.h). Blocks from 4 MB on are still mapped each by itself.
_TRIM_THRESHOLD: Final = (-1, 8 * 1024 * 1024)
_MAP_THRESHOLD: Final = (-3, 4 * 1024 * 1024)


def keep_between_requests() -> bool:
    """Let what a request frees be there for the next; False if the C library knows no such call."""
    option = _find("mallopt")
    if option is None:
        return False
    return all([option(*_TRIM_THRESHOLD) == 1, option(*_MAP_THRESHOLD) == 1])


def give_back() -> bool:
    """Whole pages that are free, wherever they lie; False if the C library knows no such call."""
    trim = _find("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


async def keep_small() -> None:
    """Give back now and then, for ever."""
    is_possible = True
    while is_possible:
        await asyncio.sleep(_PAUSE_SECONDS)
        # Behind bodies of 32 MB this may take a tenth of a second, and holds no lock of Python's.
        is_possible = await asyncio.to_thread(give_back)


@functools.cache
def _find(name: str) -> Callable[..., int] | None:
    """A function of the C library, where it has it: glibc's, which musl and macOS do not have.

    Found once: each look makes classes of its own, which only a collection of garbage frees.
    """
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return function
