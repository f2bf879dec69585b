"""Gives memory back to the system that the C library keeps for later.

Long bodies, batches of rows and tables that grow leave holes in the heap. By itself the C library
returns what is free at the heap's end and never what is free inside it: 10 MB of a worker's 85.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

# It takes 0.5 ms, and another for each megabyte that there is to give.
_PAUSE_SECONDS: Final = 20.0


def give_back() -> bool:
    """Whole pages that are free, wherever they lie; False if the C library knows no such call."""
    trim = _find_trim()
    if trim is None:
        return False
    trim(0)
    return True


async def keep_small() -> None:
    """Give back now and then, for ever."""
    is_possible = True
    while is_possible:
        await asyncio.sleep(_PAUSE_SECONDS)
        is_possible = give_back()


def _find_trim() -> Callable[[int], object] | None:
    # glibc's; musl and macOS have none.
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
