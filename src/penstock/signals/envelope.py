"""Encodes a signal as a keyed hash and msgpack. Messages without the cell's key are dropped.

Received data never makes it raise, and it decodes nothing before the hash is verified.
"""

import hashlib
import hmac
from typing import Final

import msgspec

from penstock.records.signal import Signal
from penstock.signals.counts import Drop

_HASH_BYTES: Final = 16
# Part of the hash, so that messages of another format version are refused even with the same key.
_FORM: Final = b"penstock signal1"


class Envelope:
    """Seals and opens messages with one key, shared by all gateways and keepers of the cell."""

    def __init__(self, key: bytes, bytes_max: int) -> None:
        assert 16 <= len(key) <= 64, "a key as BLAKE2b takes it"
        self.bytes_max = bytes_max
        self._key = key
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Signal)

    def seal(self, signal: Signal) -> bytes:
        body = self._encoder.encode(signal)
        return self._hash(body) + body

    def open(self, data: bytes) -> Signal | Drop:
        """Return the decoded message, or the reason why it is dropped."""
        if len(data) > self.bytes_max:
            return Drop.TOO_LARGE
        body = data[_HASH_BYTES:]
        if not hmac.compare_digest(data[:_HASH_BYTES], self._hash(body)):
            return Drop.FORGED
        try:
            signal = self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Drop.MALFORMED
        return signal if _is_whole(signal) else Drop.MALFORMED

    def _hash(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=_HASH_BYTES, person=_FORM).digest()


def _is_whole(signal: Signal) -> bool:
    """Return whether every prompt has as many links as tokens, which the types cannot express."""
    return all(
        len(prompt.links) == len(prompt.tokens) for batch in signal.batches for prompt in batch.sent
    )
