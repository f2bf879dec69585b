"""What a journal file looks like inside: frames of length, checksum, slot, kind and text. Pure.

    0        4        8      12     13
    | length | crc32  | slot | kind | text of `length` bytes |

An attempt has two frames: one when it is opened, one when it is closed. Joined, their texts are one
line for COPY into the ledger, so a drain copies bytes and decodes nothing. Attempts that are open
at a time have different slots: the slot joins the two.

A file is full of zeros when it is made, so a length of 0 is the end of what was written. A frame
whose checksum is wrong was cut by a kill in the middle of being written, or damaged since. Each
version of the lines has kinds of its own, so that one may adopt what the version before has left.
"""

import mmap
import struct
import zlib
from typing import Final

HEADER: Final = struct.Struct("<IIIB")
HEADER_BYTES: Final = 13
# Nothing more is written here.
END: Final = 0
# Without what routing expects; no longer written.
OPENED_UNROUTED: Final = 1
CLOSED: Final = 2
OPENED: Final = 3
# A closing frame is never longer: so much room is kept for each attempt that is open.
CLOSE_BYTES_MAX: Final = 256

_pack: Final = HEADER.pack
_unpack_from: Final = HEADER.unpack_from
_crc32: Final = zlib.crc32


def frame(kind: int, slot: int, text: bytes) -> bytes:
    return _pack(len(text), _crc32(text, slot ^ kind << 24), slot, kind) + text


class Damaged(Exception):
    """A frame is not what was written: what follows cannot be found."""


def read_frame(data: mmap.mmap | bytes, at: int) -> tuple[int, int, bytes, int]:
    """Kind, slot, text, and where the next one begins; the kind is END behind the last one."""
    start = at + HEADER_BYTES
    if start > len(data):
        return END, 0, b"", at
    header: tuple[int, int, int, int] = _unpack_from(data, at)
    length, checksum, slot, kind = header
    if not (length or checksum or slot or kind):
        return END, 0, b"", at
    end = start + length
    text = data[start:end]
    if len(text) != length or _crc32(text, slot ^ kind << 24) != checksum:
        raise Damaged
    if not OPENED_UNROUTED <= kind <= OPENED:
        raise Damaged
    return kind, slot, text, end
