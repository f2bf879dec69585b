"""Fires shots at a gateway from a thread of its own, many at a time, and reads every answer.

Each shot has a deadline: a gateway that neither answers nor closes in time hangs, and that fails.
Those that take longer than a moment linger in the background, so that they do not hold up the rest.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop
from tests.integration.hostile_shot import Malformed, Shot, read_answer
from tests.integration.hostile_verdict import judge

T = TypeVar("T")
_Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]

# Above every timeout that the gateways under test have; an answer later than this is a hang.
_ANSWER_SECONDS = 15.0
_MOMENT_SECONDS = 0.25
_LINE_BYTES_MAX = 4 * 2**20
_LINGERING_MAX = 400


class Traffic:
    """`fire` sends and judges; `settle` waits for those that linger. `tally` counts outcomes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._idle: list[_Pipe] = []
        self._lingering: set[asyncio.Task[str]] = set()
        self.tally: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()

    def fire(self, shots: Sequence[Shot]) -> list[str]:
        """Send all at once; how each was answered, as far as it was within a moment."""
        return self.run(self._fire(shots))

    def settle(self) -> None:
        """Wait for everything that lingers, and close the connections that were kept."""
        self.run(self._settle())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the traffic's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def total(self) -> int:
        return self.sent.total()

    async def _fire(self, shots: Sequence[Shot]) -> list[str]:
        tasks = [self._loop.create_task(self._one(shot)) for shot in shots]
        done, pending = await asyncio.wait(tasks, timeout=_MOMENT_SECONDS)
        for t,sh in zip(tasks,shots):
            if t in pending: open("/tmp/hostile/linger.txt","a").write(sh.shown()[-700:]+"\n")
        self._lingering |= pending
        done |= {task for task in self._lingering if task.done()}
        self._lingering -= done
        if len(self._lingering) > _LINGERING_MAX:
            await self._wait_for_lingering()
        return [task.result() for task in done]

    async def _settle(self) -> None:
        await self._wait_for_lingering()
        for _, writer in self._idle:
            await _close(writer)
        self._idle.clear()

    async def _wait_for_lingering(self) -> None:
        lingering, self._lingering = self._lingering, set()
        results = await asyncio.gather(*lingering, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _one(self, shot: Shot) -> str:
        self.sent[shot.kind] += 1
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                outcome = await self._exchange(shot)
        except Malformed as wrong:
            raise Malformed(f"{wrong}\nafter {shot.shown()}") from None
        except TimeoutError:
            raise Malformed(f"no answer in {_ANSWER_SECONDS} s\nafter {shot.shown()}") from None
        except (asyncio.IncompleteReadError, ConnectionError) as lost:
            if shot.may_be_dropped:
                return self._counted("dropped")
            raise Malformed(f"{type(lost).__name__}: {lost}\nafter {shot.shown()}") from None
        return self._counted(outcome)

    def _counted(self, outcome: str) -> str:
        self.tally[outcome] += 1
        return outcome

    async def _exchange(self, shot: Shot) -> str:
        reader, writer = await self._pipe(shot)
        is_kept = False
        try:
            writer.write(shot.data)
            if shot.leaves_after is not None:
                await asyncio.sleep(shot.leaves_after)
                return "left"
            answer = await read_answer(reader, is_head=shot.is_head)
            outcome = judge(shot, answer)
            is_kept = shot.is_framed and not answer.is_closing
            if answer.is_closing and not await _is_closed(reader):
                raise Malformed("the connection was announced to close, and stayed open")
        finally:
            if is_kept:
                self._idle.append((reader, writer))
            else:
                writer.transport.abort()
        return outcome

    async def _pipe(self, shot: Shot) -> _Pipe:
        """A kept connection for what is framed well, so that a lost frame shows on the next one."""
        if shot.is_framed and shot.leaves_after is None and self._idle:
            return self._idle.pop()
        return await asyncio.open_connection("127.0.0.1", self._port, limit=_LINE_BYTES_MAX)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._lingering:
            self._loop.call_soon_threadsafe(task.cancel)
        self.run(self._settle_quietly())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _settle_quietly(self) -> None:
        await asyncio.gather(*self._lingering, return_exceptions=True)
        for _, writer in self._idle:
            await _close(writer)
        self._idle.clear()


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    try:
        await writer.wait_closed()
    except ConnectionError:
        return
