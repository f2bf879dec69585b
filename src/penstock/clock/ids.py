"""UUIDv7 ids: they sort by time, so a row's day can be read off its id (RFC 9562, section 5.7)."""

import random
import time

# Ids name things, they protect nothing: the kernel's randomness for each would cost a system call.
_random_bits = random.SystemRandom().getrandbits(128)
_VERSION = "7%03x"
_VARIANT = 2 << 62
_getrandbits = random.Random(_random_bits).getrandbits  # noqa: S311 - see above


def new_id() -> str:
    """A new UUIDv7 as text: 48 bits of milliseconds, 74 random bits."""
    # In two numbers that fit into a machine's word: each request is named here.
    millis = "%012x" % (time.time_ns() // 1_000_000)
    tail = "%016x" % (_VARIANT | _getrandbits(62))
    return f"{millis[:8]}-{millis[8:]}-{_VERSION % _getrandbits(12)}-{tail[:4]}-{tail[4:]}"


def timestamp_of(uuid7: str) -> float:
    """Seconds since 1970 at which this id was made."""
    return int(uuid7[:8] + uuid7[9:13], 16) / 1000
