"""Bytes that are written after they were made: from the socket to where they stay."""

import ctypes
from typing import Final

_make = ctypes.pythonapi.PyBytes_FromStringAndSize
_make.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
_make.restype = ctypes.py_object
_address = ctypes.pythonapi.PyBytes_AsString
_address.argtypes = [ctypes.py_object]
_address.restype = ctypes.c_void_p
_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_view.restype = ctypes.py_object
_WRITABLE: Final = 0x200  # PyBUF_WRITE


class Unfilled:
    """`bytes` of a known length, which nobody has before the last of them is there.

    CPython allows this of bytes that nobody else has seen. Until they are touched, they take up
    addresses and no memory. MemoryError where there is no room.
    """

    __slots__ = ("_length", "_view", "_whole", "filled")

    def __init__(self, length: int) -> None:
        # Two bytes and more: CPython has those of fewer once, for all.
        assert length > 1
        self._length = length
        self._whole: bytes = _make(None, length)
        # The view does not hold the bytes, so both are held here, and given up together.
        self._view: memoryview = _view(_address(self._whole), length, _WRITABLE)
        self.filled = 0

    def put(self, part: bytes) -> None:
        end = self.filled + len(part)
        self._view[self.filled : end] = part
        self.filled = end

    def rest(self) -> memoryview:
        """Where the next bytes belong; `filled` is then to be raised by how many came."""
        return self._view[self.filled :]

    def take(self) -> bytes:
        """All of them, once. Nothing can be written any more."""
        if self.filled != self._length:
            raise ValueError("bytes that are not filled yet")
        self._view.release()
        return self._whole
