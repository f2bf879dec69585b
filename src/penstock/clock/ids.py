"""UUIDv7 ids: they sort by time, so a row's day can be read off its id (RFC 9562, section 5.7)."""

import random
import time
from typing import Final

# Ids name things and protect nothing: asking the kernel for randomness would be a system call each.
_random: Final = random.Random(random.SystemRandom().getrandbits(128))  # noqa: S311 - see above
_NANOS: Final = 1_000_000


def new_id() -> str:
    """A new UUIDv7 as text: 48 bits of milliseconds, 12 of the time within one, 62 random ones."""
    millis, nanos = divmod(time.time_ns(), _NANOS)
    first = millis << 16 | 7 << 12 | nanos * 4096 // _NANOS
    last = 2 << 62 | _random.getrandbits(62)
    time_digits, random_digits = first.to_bytes(8).hex(), last.to_bytes(8).hex()
    return (
        f"{time_digits[:8]}-{time_digits[8:12]}-{time_digits[12:]}"
        f"-{random_digits[:4]}-{random_digits[4:]}"
    )


def timestamp_of(uuid7: str) -> float:
    """Seconds since 1970 at which this id was made."""
    return int(uuid7[:8] + uuid7[9:13], 16) / 1000
