"""UUIDv7 ids: they sort by time, so a row's day can be read off its id (RFC 9562, section 5.7)."""

import os
import time

_HEX_VARIANT = "89ab"


def new_id() -> str:
    """A new UUIDv7 as text. 48 bits of milliseconds, 74 random bits."""
    millis = time.time_ns() // 1_000_000
    rand = os.urandom(10).hex()
    stamp = f"{millis:012x}"
    variant = _HEX_VARIANT[int(rand[3], 16) & 3]
    return f"{stamp[:8]}-{stamp[8:]}-7{rand[:3]}-{variant}{rand[4:7]}-{rand[8:]}"


def timestamp_of(uuid7: str) -> float:
    """Seconds since 1970 at which this id was made."""
    return int(uuid7[:8] + uuid7[9:13], 16) / 1000
