"""The lines of calls: for whoever reads them now, and for gateways that ask for them again."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from penstock.wire.resources.sandbox import CallLine

_encoder: Final = msgspec.json.Encoder()


class Call:
    """One call of code. Its lines can be read from the first one on, by several at a time."""

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.is_ended = False
        self.is_forgotten = False
        self.size = 0
        self._lines: list[bytes] = []
        self._more = asyncio.Event()

    def add(self, line: CallLine) -> None:
        data = _encoder.encode(line) + b"\n"
        self.size += len(data)
        self._lines.append(data)
        self._tell()

    def end(self) -> None:
        self.is_ended = True
        self._tell()

    def forget(self) -> None:
        """Drop the lines. Whoever reads them already reads on."""
        self.is_forgotten = True
        self._lines = []

    async def read(self) -> AsyncGenerator[bytes]:
        """Yield all lines, and wait for those that are still to come."""
        lines, at = self._lines, 0
        while True:
            while at < len(lines):
                at += 1
                yield lines[at - 1]
            if self.is_ended:
                return
            await self._more.wait()

    def _tell(self) -> None:
        self._more.set()
        self._more = asyncio.Event()


class KeptLines:
    """Bounds the lines of ended calls, of all containers together: the oldest are forgotten."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._calls: OrderedDict[int, Call] = OrderedDict()

    def keep(self, call: Call) -> None:
        self._calls[id(call)] = call
        self._left -= call.size
        while self._left < 0:
            self.drop(next(iter(self._calls.values())))

    def drop(self, call: Call) -> None:
        """Forget a call's lines, if they are kept."""
        if self._calls.pop(id(call), None) is not None:
            self._left += call.size
            call.forget()
