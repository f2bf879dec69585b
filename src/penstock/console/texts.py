"""Makes texts of callers fit to be shown: what they wrote is text, however they meant it. Pure."""

import unicodedata
from typing import Final

_TEXT_CHARS_MAX: Final = 256
# Between a number and its unit; Python does not call it printable.
FIRM_SPACE: Final = "\u00a0"
# Marks that turn the direction of the text behind them.
_TURNING: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def text(value: object) -> str:
    """Return a caller's text for a page: cut, without control characters and turning marks."""
    shown = printable(str(value))
    return shown if len(shown) <= _TEXT_CHARS_MAX else shown[: _TEXT_CHARS_MAX - 1] + "…"


def printable(value: str) -> str:
    """Return a text without control characters and turning marks."""
    if value.replace(FIRM_SPACE, "").isprintable():
        # Nearly every text; neither kind of character is printable.
        return value
    return "".join(
        each for each in value if each not in _TURNING and unicodedata.category(each) != "Cc"
    )
