"""What a journal file looks like inside: frames of length, checksum, slot, kind and text. Pure.

    0        4        8      12     13
    | length | crc32  | slot | kind | text of `length` bytes |

An attempt has two frames: one when it is opened, one when it is closed. Joined, their texts are one
line for COPY into the ledger, so a drain copies bytes and decodes nothing. Attempts that are open
at a time have different slots: the slot joins the two.

A file is full of zeros when it is made, so a length of 0 is the end of what was written. A frame
whose checksum is wrong was cut by a kill in the middle of being written, or damaged since. Each
version of the lines has kinds of its own, so that a release adopts the journals of those before it.
"""

import struct
import zlib
from typing import Final

HEADER_BYTES: Final = 13
# What a reader may find instead of a frame: nothing more is written, or there is more than it sees.
END: Final = 0
CUT: Final = -1
# Without what routing expects; no longer written.
OPENED_UNROUTED: Final = 1
CLOSED: Final = 2
# Without the turn, contract and task that the request belongs to; no longer written.
OPENED_UNLABELLED: Final = 3
OPENED: Final = 4
# A closing frame is never longer: so much room is kept for each attempt that is open.
CLOSE_BYTES_MAX: Final = 256

_pack: Final = struct.Struct("<IIIB").pack
_crc32: Final = zlib.crc32


def frame(kind: int, slot: int, text: bytes) -> bytes:
    return _pack(len(text), _crc32(text, slot ^ kind << 24), slot, kind) + text


class Damaged(Exception):
    """A frame is not what was written: what follows cannot be found."""


def read_frame(data: bytes, at: int) -> tuple[int, int, bytes, int]:
    """Kind, slot, text, and where the next one begins.

    The kind is END behind the last one, and CUT where `data` ends within a frame.
    """
    start = at + HEADER_BYTES
    if start > len(data):
        return CUT, 0, b"", at
    # By hand: two frames are read for each request, and a call of `struct` costs twice this.
    length, checksum = _read_number(data, at), _read_number(data, at + 4)
    slot, kind = _read_number(data, at + 8), data[at + 12]
    if not (length or checksum or slot or kind):
        return END, 0, b"", at
    end = start + length
    if end > len(data):
        return CUT, 0, b"", at
    text = data[start:end]
    if _crc32(text, slot ^ kind << 24) != checksum:
        raise Damaged
    if not OPENED_UNROUTED <= kind <= OPENED:
        raise Damaged
    return kind, slot, text, end


def _read_number(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
