"""Where a request was sent and what was expected of it there, in headers of its answer.

Only a runtime key gets answers, and all of them are its own account's: it may see these.
"""

from typing import Final

from penstock.records.request import RequestEnd

NAMES: Final = (
    "x-penstock-replica",
    "x-penstock-cache-expected",
    "x-penstock-session-moved",
    "x-penstock-cache-break",
)


def route_headers(end: RequestEnd) -> bytes:
    """Of the attempt that answers; nothing where none was made."""
    if not end.replica:
        return b""
    lines = f"x-penstock-replica: {end.replica}\r\n"
    if end.cached_expected is not None:
        lines += f"x-penstock-cache-expected: {end.cached_expected}\r\n"
    if end.session_moved:
        lines += f"x-penstock-session-moved: {end.session_moved}\r\n"
    if end.cache_break:
        lines += f"x-penstock-cache-break: {end.cache_break}\r\n"
    return lines.encode("latin-1", "replace")
