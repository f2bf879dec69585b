"""Writes the scripted engine's answers to the connection: paced, split, glued, cut, or never.

Each answer has one delivery, which counts SSE events and applies the script after the n-th.
"""

import asyncio
import base64
import os
import signal

from penstock.testing.scripted_engine.http_connection import HttpConnection
from penstock.testing.scripted_engine.script import Script

_FOREVER_SECONDS = 86_400.0
_GARBAGE = b"\x16\x03\x01 this is not HTTP \x00\xff\r\n\r\n"
_GARBAGE_EVENT = b'data: {"id":"chatcmpl-garbage","choices":[{"index":\n\n'
GARBAGE_JSON = b'{"id":"chatcmpl-garbage","object":"chat.completion","choices":[{"index":0,'


class AnswerEndedError(Exception):
    """The script ended the answer early; the engine writes nothing more."""


class AnswerDelivery:
    """Writes one answer to one connection, as the script directs."""

    def __init__(self, connection: HttpConnection, script: Script, fault: bytes | None) -> None:
        self._connection = connection
        self._script = script
        # The bytes that a stream ends with if the engine fails; None: the connection closes.
        self._fault = fault
        self._events = 0
        self._held = b""
        self._written = 0

    async def before_head(self) -> None:
        """Apply the script's directives for the time before the first byte."""
        script = self._script
        if script.stall_before_head:
            await asyncio.sleep(script.stall_before_head)
        if script.die_before_head:
            _die()
        if script.cut_before_head:
            await self._connection.reset()
            raise AnswerEndedError
        if script.garbage or script.raw is not None:
            raw = _GARBAGE if script.raw is None else base64.b64decode(script.raw)
            self._connection.write(raw)
            await self._connection.close()
            raise AnswerEndedError

    async def send_head(self, data: bytes) -> None:
        pause = 0.001 if self._script.slow_head is True else float(self._script.slow_head)
        if not pause:
            self._connection.write(data)
            return
        for position in range(len(data)):
            self._connection.write(data[position : position + 1])
            await asyncio.sleep(pause)

    async def send_body(self, head: bytes, body: bytes) -> None:
        """Send an answer with a content length. "After n" counts its bytes."""
        script = self._script
        stops = [script.cut_after, script.close_after, script.die_after]
        stops.append(script.stall_after[0] if script.stall_after else None)
        wanted = sorted({at for at in stops if at is not None and at < len(body)})
        if not wanted and not script.slow_head and not script.stall_before_first:
            self._connection.write(head + body)
            return
        await self.send_head(head)
        await asyncio.sleep(script.stall_before_first)
        start = 0
        for at in wanted:
            self._connection.write(body[start:at])
            start = at
            await self._after(at)
        self._connection.write(body[start:])

    async def before_first(self) -> None:
        if self._script.stall_before_first:
            await asyncio.sleep(self._script.stall_before_first)
        await self._after(0)

    async def send_event(self, event: bytes) -> None:
        """Send one SSE event of the answer, then apply the script's directives after it."""
        await self._write(event)
        self._events += 1
        if self._script.interval:
            await asyncio.sleep(self._script.interval)
        await self._after(self._events)
        await self._connection.drain()

    async def finish(self, ending: bytes) -> None:
        """Send `ending`, which ends a stream in this API, and the end of the chunked body."""
        if not self._script.no_done:
            await self._write(ending)
        await self._release()
        self._connection.write(b"0\r\n\r\n")

    async def _after(self, count: int) -> None:
        script = self._script
        if script.garbage_sse_after == count:
            await self._write(_GARBAGE_EVENT)
        if script.stall_after is not None and script.stall_after[0] == count:
            await self._release()
            seconds = script.stall_after[1]
            await asyncio.sleep(_FOREVER_SECONDS if seconds is None else seconds)
        if script.error_after == count:
            await self._fail()
        if count in {script.cut_after, script.close_after, script.die_after}:
            await self._release()
            await self._end(count)

    async def _fail(self) -> None:
        if self._fault is None:
            await self._release()
            await self._connection.close()
        else:
            await self._write(self._fault)
            await self._release()
            self._connection.write(b"0\r\n\r\n")
        raise AnswerEndedError

    async def _end(self, count: int) -> None:
        script = self._script
        if script.die_after == count:
            await self._connection.flush()
            _die()
        if script.cut_after == count:
            await self._connection.reset()
        else:
            await self._connection.close()
        raise AnswerEndedError

    async def _write(self, payload: bytes) -> None:
        script = self._script
        if not script.shapes_writes:
            self._connection.write(_chunk(payload))
            # Between two tokens the loop must run other tasks and notice that the client left.
            await asyncio.sleep(0)
            return
        self._held += payload
        if script.split is not None:
            while len(self._held) >= script.split:
                await self._piece(script.split)
        for offset in script.split_at or ():
            if self._written < offset <= self._written + len(self._held):
                await self._piece(offset - self._written)

    async def _release(self) -> None:
        """Write the bytes that splitting or gluing still holds back."""
        if self._held:
            await self._piece(len(self._held))

    async def _piece(self, size: int) -> None:
        piece, self._held = self._held[:size], self._held[size:]
        self._written += size
        self._connection.write(_chunk(piece))
        await asyncio.sleep(self._script.split_pause)
        await self._connection.drain()


def _chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def _die() -> None:
    """End as by kill -9: no handler runs, the kernel closes the sockets."""
    os.kill(os.getpid(), signal.SIGKILL)
