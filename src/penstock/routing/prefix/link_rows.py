"""The memory layout of the link table: an entry is a row of ten 32-bit numbers, rows are in pages.

A row is 40 bytes, so that one step reads one or two lines of the processor's cache. Pages are never
moved, so a growing table does not stop the worker for a copy. Entry 0 means no entry.
"""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i32, i64

# The columns. A link has 62 bits, in two halves.
LOW: Final = 0
HIGH: Final = 1
PARENT: Final = 2
CHILDREN: Final = 3
# The neighbours in the order of last use; of a free entry, `NEWER` is the next free one.
OLDER: Final = 4
NEWER: Final = 5
# The next holder of the same link; the entry itself when it is the only one; 0 when it is held but
# not listed.
RING: Final = 6
# Tokens of this link by itself, and of the whole prefix that ends with it.
TOKENS: Final = 7
TOTAL: Final = 8
# The replica's number, and in the lowest bit whether the total is what an engine counted.
HOLDER: Final = 9
ROW: Final = 10

PAGE_BITS: Final = 8
PAGE_MASK: Final = 255
HALF_BITS: Final = 31
HALF_MASK: Final = 2**31 - 1
NUMBER_MAX: Final = 2**31 - 1

_EMPTY_PAGE: Final = vec[i32]([0] * ((PAGE_MASK + 1) * ROW))


def new_page() -> vec[i32]:
    return _EMPTY_PAGE[:]


def get(pages: vec[vec[i32]], entry: i64, column: i64) -> i64:
    """Read one column of an entry. Loops that run per link read the rows themselves instead."""
    return i64(pages[entry >> PAGE_BITS][(entry & PAGE_MASK) * ROW + column])


def put(pages: vec[vec[i32]], entry: i64, column: i64, value: i64) -> None:
    pages[entry >> PAGE_BITS][(entry & PAGE_MASK) * ROW + column] = i32(value)


def link_of(pages: vec[vec[i32]], entry: i64) -> i64:
    """Return the link that an entry belongs to."""
    page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
    return i64(page[row + HIGH]) << HALF_BITS | i64(page[row + LOW])
