"""Encodes and decodes journal files: frames of length, checksum, slot, kind and text. Pure.

    0        4        8      12     13
    | length | crc32  | slot | kind | text of `length` bytes |

An attempt has two frames: one when it is opened, one when it is closed. Joined, their texts are one
line for COPY into the ledger, so a drain copies bytes and decodes nothing. Attempts open at the
same time have different slots, so the slot matches a closing frame to its opening frame. A decision
of a contract is one frame, whose text is a line for COPY by itself; its slot is 0.

A new file is full of zeros, so a header of zeros marks the end of the written frames. A wrong
checksum means that a kill interrupted the write of the frame, or that the file was damaged later.
Each version of the lines has its own kinds, so that a release can read older releases' journals.
"""

import struct
import zlib
from typing import Final

HEADER_BYTES: Final = 13
# Returned instead of a frame's kind: no frame follows, or the data end within a frame.
END: Final = 0
CUT: Final = -1
# An opening without the columns of routing's expectations; no longer written.
OPENED_UNROUTED: Final = 1
CLOSED: Final = 2
# An opening without the columns of turn, contract and task; no longer written.
OPENED_UNLABELLED: Final = 3
OPENED: Final = 4
DECIDED: Final = 5
# The maximum size of a closing frame; the journal reserves this for each open attempt.
CLOSE_BYTES_MAX: Final = 256

_pack: Final = struct.Struct("<IIIB").pack
_crc32: Final = zlib.crc32


def frame(kind: int, slot: int, text: bytes) -> bytes:
    return _pack(len(text), _crc32(text, slot ^ kind << 24), slot, kind) + text


class Damaged(Exception):
    """A frame is corrupt, so the frames after it cannot be found."""


def read_frame(data: bytes, at: int) -> tuple[int, int, bytes, int]:
    """Return the kind, slot and text of the frame at `at`, and where the next frame begins.

    The kind is END after the last frame, and CUT where `data` ends within a frame.
    """
    start = at + HEADER_BYTES
    if start > len(data):
        return CUT, 0, b"", at
    # Decoded by hand: each request has two frames, and a call of `struct` costs twice as much.
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
    if not OPENED_UNROUTED <= kind <= DECIDED:
        raise Damaged
    return kind, slot, text, end


def _read_number(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
