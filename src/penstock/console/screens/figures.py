"""Formats numbers for pages: each has its unit, behind a space at which no line breaks. Pure."""

from typing import Final

from penstock.console import formats
from penstock.console.texts import FIRM_SPACE

UNKNOWN: Final = "\u2013"
_MEGABYTE: Final = 10**6


def milliseconds(time: float | None) -> str:
    """Return a time in milliseconds below a second, and in seconds from there on."""
    if time is None:
        return UNKNOWN
    return f"{time:.0f}{FIRM_SPACE}ms" if time < 1000 else f"{time / 1000:.1f}{FIRM_SPACE}s"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share * 100:.0f}{FIRM_SPACE}%"


def dollars(nanousd: int) -> str:
    """Return an amount of money; parts of a dollar that are no cents have all their six digits.

    So the amounts of a column stand below each other.
    """
    return formats.dollars(nanousd, is_padded=True)


def fact(name: str, value: object) -> str:
    """Return what a process says of itself: bytes as megabytes, all else as it is."""
    what, _, unit = name.rpartition("_")
    if unit == "bytes" and isinstance(value, int):
        return f"{what.replace('_', ' ')} {value / _MEGABYTE:.1f}{FIRM_SPACE}MB"
    return f"{name.replace('_', ' ')} {value}"
