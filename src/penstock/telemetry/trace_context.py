"""Reads a caller's `traceparent` (W3C Trace Context). Whatever is not exactly one is ignored."""

import re
from typing import Final

TRACEPARENT: Final = b"traceparent"
_BYTES: Final = 55
# What a later version may add, behind a dash.
_BYTES_MAX: Final = 256
_VERSION_00: Final = b"00"
# The version, the trace's id, the caller's span and the flags. Version ff and ids of zeros are not
# allowed.
_match: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?",
    re.DOTALL,
).fullmatch


def read_traceparent(headers: list[tuple[bytes, bytes]]) -> tuple[str, str] | None:
    """Return the ids of the caller's trace and span; None if there are none, or several."""
    given = b""
    for name, value in headers:
        if name == TRACEPARENT:
            if given:
                return None
            given = value
    length = len(given)
    if length < _BYTES or length > _BYTES_MAX:
        return None
    found = _match(given)
    if found is None or (length > _BYTES and found[1] == _VERSION_00):
        return None
    return found[2].decode(), found[3].decode()
