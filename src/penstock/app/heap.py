"""Returns free memory of the C heap to the system at intervals, instead of after each request.

By default glibc maps new memory for each long body, or returns the end of the heap after each
request: at 300 KB the page faults were four tenths of a request's cost. And glibc never returns
free memory inside the heap: holes left by long bodies, batches of rows and growing tables, about
2 MB of a worker's heap each time.
"""

import asyncio
import ctypes
import functools
from collections.abc import Callable
from typing import Final

# A trim takes 0.5 ms, plus 0.1 to 1 ms for each megabyte that it returns.
_PAUSE_SECONDS: Final = 20.0
# Options of mallopt (malloc.h) and their values. Blocks of 4 MB or more keep their own mapping.
_TRIM_THRESHOLD: Final = (-1, 8 * 1024 * 1024)
_MAP_THRESHOLD: Final = (-3, 4 * 1024 * 1024)


def keep_between_requests() -> bool:
    """Keep freed memory for the next request; False if the C library cannot."""
    option = _find("mallopt")
    if option is None:
        return False
    return all([option(*_TRIM_THRESHOLD) == 1, option(*_MAP_THRESHOLD) == 1])


def give_back() -> bool:
    """Return all free whole pages to the system; False if the C library cannot."""
    trim = _find("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


async def keep_small() -> None:
    """Give back every 20 s until cancelled; end if the C library cannot."""
    is_possible = True
    while is_possible:
        await asyncio.sleep(_PAUSE_SECONDS)
        # In a thread without the GIL: after bodies of 32 MB a trim may take a tenth of a second.
        is_possible = await asyncio.to_thread(give_back)


@functools.cache
def _find(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or None: musl and macOS lack those of glibc.

    Cached, because each lookup creates classes that only the garbage collector frees.
    """
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return function
