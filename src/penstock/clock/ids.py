"""UUIDv7 ids: they sort by time, so a row's day can be read off its id (RFC 9562, section 5.7)."""

import random
import time

# Ids name things, they protect nothing: the kernel's randomness for each would cost a system call.
_random_bits = random.SystemRandom().getrandbits(128)
_getrandbits = random.Random(_random_bits).getrandbits  # noqa: S311 - see above


def new_id() -> str:
    """A new UUIDv7 as text: 48 bits of milliseconds, 74 random bits."""
    millis = time.time_ns() // 1_000_000
    number = (millis << 80) | (7 << 76) | (_getrandbits(12) << 64) | (2 << 62) | _getrandbits(62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def timestamp_of(uuid7: str) -> float:
    """Seconds since 1970 at which this id was made."""
    return int(uuid7[:8] + uuid7[9:13], 16) / 1000
