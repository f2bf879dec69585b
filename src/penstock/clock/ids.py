"""UUIDv7 ids: they sort by time, so a row's day can be read off its id (RFC 9562, section 5.7)."""

import random
import time
from typing import Final

from mypy_extensions import i64

# Ids name things, they protect nothing: the kernel's randomness for each would cost a system call.
_random_bits = random.SystemRandom().getrandbits(128)
_getrandbits: Final = random.Random(_random_bits).getrandbits  # noqa: S311 - see above
_time_ns: Final = time.time_ns
_NANOS: Final = 1_000_000
# Each request is named here: digits come three at a time out of a table, which is much cheaper than
# to format a number.
_DIGITS: Final = [f"{number:03x}" for number in range(4096)]
_VARIANTS: Final = ["8", "9", "a", "b"]


class _Last:
    """The id that was made last, and when: it is the one whose time is asked for."""

    __slots__ = ("era", "id", "prefix", "seconds")

    def __init__(self) -> None:
        self.id = ""
        self.seconds = 0.0
        # Four seconds have the same first nine digits: their number, and those digits.
        self.era: i64 = 0
        self.prefix = ""


_last: Final = _Last()


def new_id() -> str:
    """A new UUIDv7 as text: 48 bits of milliseconds, 12 of the time within one, 62 random ones."""
    nanos = i64(_time_ns())
    millis = nanos // _NANOS
    within = nanos % _NANOS * 4096 // _NANOS
    # So many fit into a machine's word.
    bits = i64(_getrandbits(62))
    digits = _DIGITS
    if millis >> 12 != _last.era:
        middle = digits[millis >> 12 & 4095]
        _last.era = millis >> 12
        _last.prefix = (
            f"{digits[millis >> 36]}{digits[millis >> 24 & 4095]}{middle[:2]}-{middle[2]}"
        )
    made = (
        f"{_last.prefix}{digits[millis & 4095]}-7{digits[within]}-"
        f"{_VARIANTS[bits >> 60]}{digits[bits >> 48 & 4095]}-"
        f"{digits[bits >> 36 & 4095]}{digits[bits >> 24 & 4095]}"
        f"{digits[bits >> 12 & 4095]}{digits[bits & 4095]}"
    )
    _last.id = made
    _last.seconds = int(millis) / 1000
    return made


def timestamp_of(uuid7: str) -> float:
    """Seconds since 1970 at which this id was made."""
    if uuid7 is _last.id:
        return _last.seconds
    return int(uuid7[:8] + uuid7[9:13], 16) / 1000
