"""Encrypts values with AES-256-GCM, in frames, so that streams of any length fit. Pure.

A sealed value is `MAGIC`, a random salt, then frames of 64 KiB of content, each with its tag. The
data key and the salt give a key that only this value uses; so a frame's nonce is its number, and
an account may have any number of values. The last frame's nonce is marked: a value that was cut,
extended or put together from others does not open. `owner` is bound to each frame: a value that
was moved to another row or object does not open either.
"""

import hashlib
import secrets
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
# JSON and text never begin with NUL: that tells values from before sealing.
MAGIC: Final = b"\0PS1"
_SALT_BYTES: Final = 16
_HEAD_BYTES: Final = len(MAGIC) + _SALT_BYTES
_FRAME_BYTES: Final = 64 * 1024
_TAG_BYTES: Final = 16
_SEALED_FRAME_BYTES: Final = _FRAME_BYTES + _TAG_BYTES
_ONE_FRAME_BYTES_MAX: Final = _HEAD_BYTES + _SEALED_FRAME_BYTES


class DoesNotOpen(Exception):
    """The value was sealed with another key or for another owner, or it was changed."""


def unseal_value(key: bytes | None, owner: str, kept: bytes) -> bytes:
    """Decrypt a whole value.

    Nearly all have one frame, which opens here in a third of the time that an `Unsealer` takes: a
    chain of a hundred responses has two hundred values.
    """
    if key is None or len(kept) > _ONE_FRAME_BYTES_MAX or not kept.startswith(MAGIC):
        unsealer = Unsealer(key, owner)
        return unsealer.add(kept) + unsealer.end()
    own = _cipher_of(key, kept[len(MAGIC) : _HEAD_BYTES])
    return decrypt(own, _ONLY_FRAME, kept[_HEAD_BYTES:], owner.encode())


class Sealer:
    """Encrypts one value piece by piece: all that `add` returns, then what `end` returns."""

    def __init__(self, key: bytes, owner: str) -> None:
        salt = secrets.token_bytes(_SALT_BYTES)
        self._frames = _Frames(key, salt, owner)
        self._sealed = bytearray(MAGIC + salt)
        self._open = bytearray()

    def add(self, content: bytes) -> bytes:
        """Take a piece of the content; return what of the sealed value is complete."""
        self._open += content
        # A full frame waits for more content: it may be the last one.
        while len(self._open) > _FRAME_BYTES:
            self._sealed += self._frames.seal(bytes(self._open[:_FRAME_BYTES]), is_last=False)
            del self._open[:_FRAME_BYTES]
        return self._complete()

    def end(self) -> bytes:
        self._sealed += self._frames.seal(bytes(self._open), is_last=True)
        return self._complete()

    def _complete(self) -> bytes:
        complete = bytes(self._sealed)
        self._sealed.clear()
        return complete


class Unsealer:
    """Decrypts one value piece by piece. A value from before sealing passes through unchanged.

    With `key` None only such values open. Content that `add` has returned is authentic; that it
    is complete is known when `end` returns.
    """

    def __init__(self, key: bytes | None, owner: str) -> None:
        self._key = key
        self._owner = owner
        self._frames: _Frames | None = None
        self._is_plain = False
        self._waiting = bytearray()

    def add(self, piece: bytes) -> bytes:
        """Take a piece of the sealed value; return the content that it completes."""
        if self._is_plain:
            return piece
        self._waiting += piece
        if self._frames is None and not self._begin():
            return self._passed_through() if self._is_plain else b""
        assert self._frames is not None
        content = bytearray()
        while len(self._waiting) > _SEALED_FRAME_BYTES:
            frame = bytes(self._waiting[:_SEALED_FRAME_BYTES])
            content += self._frames.unseal(frame, is_last=False)
            del self._waiting[:_SEALED_FRAME_BYTES]
        return bytes(content)

    def end(self) -> bytes:
        """Return the rest of the content; raise DoesNotOpen if the value was cut."""
        if self._frames is None:
            if self._waiting.startswith(MAGIC):
                raise DoesNotOpen
            return self._passed_through()
        return self._frames.unseal(bytes(self._waiting), is_last=True)

    def _begin(self) -> bool:
        """Read the head; return whether it is complete and a sealed value's."""
        if not MAGIC.startswith(bytes(self._waiting[: len(MAGIC)])):
            self._is_plain = True
            return False
        if len(self._waiting) < _HEAD_BYTES:
            return False
        if self._key is None:
            raise DoesNotOpen
        salt = bytes(self._waiting[len(MAGIC) : _HEAD_BYTES])
        self._frames = _Frames(self._key, salt, self._owner)
        del self._waiting[:_HEAD_BYTES]
        return True

    def _passed_through(self) -> bytes:
        content = bytes(self._waiting)
        self._waiting.clear()
        return content


class _Frames:
    """Seals or opens the frames of one value, in order."""

    def __init__(self, key: bytes, salt: bytes, owner: str) -> None:
        self._cipher = _cipher_of(key, salt)
        self._owner = owner.encode()
        self._count = 0

    def seal(self, content: bytes, *, is_last: bool) -> bytes:
        return self._cipher.encrypt(self._nonce(is_last=is_last), content, self._owner)

    def unseal(self, frame: bytes, *, is_last: bool) -> bytes:
        return decrypt(self._cipher, self._nonce(is_last=is_last), frame, self._owner)

    def _nonce(self, *, is_last: bool) -> bytes:
        nonce = _nonce(self._count, is_last=is_last)
        self._count += 1
        return nonce


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


_ONLY_FRAME: Final = _nonce(0, is_last=True)


def _cipher_of(key: bytes, salt: bytes) -> "AESGCM":
    """Return the cipher that only the value with this salt uses."""
    own_key = hashlib.blake2b(salt, key=key, digest_size=KEY_BYTES, person=b"penstock value")
    return cipher(own_key.digest())


def cipher(key: bytes) -> "AESGCM":
    """Return AES-256-GCM with this key."""
    return _library()[0](key)


def decrypt(cipher: "AESGCM", nonce: bytes, sealed: bytes, owner: bytes) -> bytes:
    """Return the content; DoesNotOpen if the tag does not fit."""
    try:
        return cipher.decrypt(nonce, sealed, owner)
    except (_library()[1], ValueError):
        # ValueError: too short to have a tag.
        raise DoesNotOpen from None


@cache
def _library() -> "tuple[type[AESGCM], type[Exception]]":
    """Return AES-GCM, and what it raises for a wrong tag.

    Imported with the first value: a worker that keeps no content does not need the megabytes.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    return AESGCM, InvalidTag
