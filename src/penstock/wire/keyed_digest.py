"""A digest of bytes with a key: 64 bits that nobody finds two texts for.

XXH3 would take a fifth of the time, but whoever knows how it mixes makes two texts with one digest
of 128 bits, seed unknown, at every sixtieth attempt; and so would get an address past the check of
media. For SipHash, which Python has for its dictionaries, no such way is known.
"""

import sys
from typing import Final

from msgspec import Raw

HAS_SIPHASH: Final = sys.hash_info.algorithm.startswith("siphash")


def keyed_digest(key: int, data: bytes | memoryview | Raw) -> int:
    """Worth something only where `HAS_SIPHASH`."""
    return hash(b"".join((key.to_bytes(8, "little", signed=True), data)))
