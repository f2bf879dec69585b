"""UUIDv7 ids: they sort by time, so a row's day can be read off its id (RFC 9562, section 5.7)."""

import random
import time
import uuid
from typing import Final

# Ids are not secrets, so they need no randomness from the kernel, which costs a system call per id.
_random: Final = random.Random(random.SystemRandom().getrandbits(128))  # noqa: S311 - see above
_NANOS: Final = 1_000_000


def new_id() -> str:
    """Return a new UUIDv7: 48 bits of milliseconds, 12 bits of sub-millisecond time, 62 random."""
    millis, nanos = divmod(time.time_ns(), _NANOS)
    first = millis << 16 | 7 << 12 | nanos * 4096 // _NANOS
    last = 2 << 62 | _random.getrandbits(62)
    time_digits, random_digits = first.to_bytes(8).hex(), last.to_bytes(8).hex()
    return (
        f"{time_digits[:8]}-{time_digits[8:12]}-{time_digits[12:]}"
        f"-{random_digits[:4]}-{random_digits[4:]}"
    )


def new_span_id() -> str:
    """Return a new id of a span: 16 hexadecimal digits, not all of them zero."""
    return (_random.getrandbits(64) or 1).to_bytes(8).hex()


def first_id_at(seconds: float) -> uuid.UUID:
    """Return the least id of a time since 1970: ids that were made from then on are not less."""
    return uuid.UUID(int=int(seconds * 1000) << 80)


def timestamp_of(uuid7: str) -> float:
    """Return the time at which this id was made, in seconds since 1970."""
    return int(uuid7[:8] + uuid7[9:13], 16) / 1000
