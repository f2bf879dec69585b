"""GMAC of bytes where they lie, by the OpenSSL that Python itself has loaded.

For what is long it takes a third of SipHash's time. It is worth something only as long as nobody
sees a tag: all have one nonce, so two of them would give the key away. Whoever only learns whether
two tags are the same learns next to nothing, and to find two texts with one tag is luck, however
they are chosen: 1 in 2¹²⁸ for each block of 16 bytes.
"""

import ctypes
import secrets
from typing import Final

_KEY_BYTES: Final = 16
_TAG_BYTES: Final = 16
_NONCE: Final = bytes(12)
_GET_TAG: Final = 0x10  # EVP_CTRL_AEAD_GET_TAG
_DONE: Final = 1

_address_of = ctypes.pythonapi.PyBytes_AsString
_address_of.argtypes = [ctypes.py_object]
_address_of.restype = ctypes.c_void_p


def address_of(data: bytes) -> int:
    """Where its bytes are in memory, as long as somebody holds it."""
    return int(_address_of(data))


def make_gmac() -> "Gmac | None":
    """None where Python has no OpenSSL, or has it in a way that others cannot call it."""
    try:
        return Gmac(secrets.token_bytes(_KEY_BYTES))
    except (ImportError, AttributeError, OSError):
        return None


class Gmac:
    """One key. For one thread, and for as long as the process lives: nothing frees it."""

    __slots__ = (
        "_context", "_count", "_count_at", "_end", "_read", "_start", "_tag", "_tag_at", "_update",
    )  # fmt: skip

    def __init__(self, key: bytes) -> None:
        import _hashlib  # noqa: PLC0415 - not every Python has it

        number, pointer = ctypes.c_int, ctypes.c_void_p
        # Through this module what it is linked to is found, and nothing is loaded a second time.
        # Each call is short, so the interpreter's lock is kept.
        library = ctypes.PyDLL(_hashlib.__file__)
        make, cipher = library.EVP_CIPHER_CTX_new, library.EVP_aes_128_gcm
        make.restype = cipher.restype = pointer
        self._start = library.EVP_EncryptInit_ex
        self._start.argtypes = [pointer, pointer, pointer, pointer, pointer]
        self._update = library.EVP_EncryptUpdate
        self._update.argtypes = [pointer, pointer, pointer, pointer, number]
        self._end = library.EVP_EncryptFinal_ex
        self._end.argtypes = [pointer, pointer, pointer]
        self._read = library.EVP_CIPHER_CTX_ctrl
        self._read.argtypes = [pointer, number, number, pointer]
        self._context: int | None = make()
        self._tag = ctypes.create_string_buffer(_TAG_BYTES)
        self._tag_at = ctypes.addressof(self._tag)
        # How much was written, which nobody asks.
        self._count = number()
        self._count_at = ctypes.addressof(self._count)
        if (
            self._context is None
            or self._start(self._context, cipher(), None, key, _NONCE) != _DONE
        ):
            raise OSError("OpenSSL has no AES-GCM")
        # Whatever else it may lack must be known now, and not with the first long body.
        self.tag(address_of(key), len(key))

    def tag(self, address: int, length: int) -> bytes:
        """Of the bytes there, all of which must be the caller's."""
        context, count_at = self._context, self._count_at
        # A step that fails would leave the tag of something else.
        if (
            self._start(context, None, None, None, _NONCE) != _DONE
            or self._update(context, None, count_at, address, length) != _DONE
            or self._end(context, None, count_at) != _DONE
            or self._read(context, _GET_TAG, _TAG_BYTES, self._tag_at) != _DONE
        ):
            raise OSError("OpenSSL made no tag")
        return self._tag.raw
