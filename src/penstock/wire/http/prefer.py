"""Reads RFC 7240's `Prefer`, of which `respond-async` and `wait=N` are honoured."""

import re
from typing import Final

import msgspec

# A name, and a value that is a token or a quoted string; parameters after `;` are ignored.
_PREFERENCE: Final = re.compile(
    rb'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s,;"]*))?[^,"]*(?:,|$)'
)
_SECONDS_CHARS_MAX: Final = 9


class Preference(msgspec.Struct, frozen=True):
    """A caller accepts a later answer; `wait_seconds` is how long it would wait for one now."""

    wait_seconds: int | None = None

    @property
    def applied_later(self) -> str:
        """The value of `Preference-Applied` when the answer was not ready in time."""
        if self.wait_seconds is None:
            return "respond-async"
        return f"respond-async, wait={self.wait_seconds}"


def read_prefer(header: bytes) -> Preference | None:
    """Return the preference, None without `respond-async`. A name's first counts (section 2)."""
    found: dict[bytes, bytes] = {}
    for match in _PREFERENCE.finditer(header):
        found.setdefault(match[1].lower(), (match[2] or b"").strip(b'"'))
    if b"respond-async" not in found:
        return None
    wait = found.get(b"wait", b"")
    is_number = wait.isdigit() and len(wait) <= _SECONDS_CHARS_MAX
    return Preference(int(wait) if is_number else None)
