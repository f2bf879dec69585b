"""Renders where a request was routed and what was expected there, as headers of its answer.

Only a runtime key gets answers, and all of them are its own account's: it may see these headers.
"""

from typing import Final

from penstock.records.decimals import whole
from penstock.records.request import RequestEnd

NAMES: Final = (
    "x-penstock-replica",
    "x-penstock-cache-expected",
    "x-penstock-session-moved",
    "x-penstock-cache-break",
)


# Rendered header lines, by replica.
_REPLICAS_MAX: Final = 1000
_replicas: Final[dict[str, bytes]] = {}


def route_headers(end: RequestEnd) -> bytes:
    """Return the headers of the attempt that answers; nothing if no attempt was made."""
    replica = end.replica
    if not replica:
        return b""
    lines = _replicas.get(replica)
    if lines is None:
        if len(_replicas) >= _REPLICAS_MAX:
            _replicas.clear()
        lines = f"x-penstock-replica: {replica}\r\n".encode("latin-1", "replace")
        _replicas[replica] = lines
    expected = end.cached_expected
    if expected is not None:
        lines = b"%sx-penstock-cache-expected: %s\r\n" % (lines, whole(expected))
    if end.session_moved:
        lines += b"x-penstock-session-moved: %s\r\n" % end.session_moved.encode()
    if end.cache_break:
        lines += b"x-penstock-cache-break: %s\r\n" % end.cache_break.encode()
    return lines
