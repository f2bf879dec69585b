"""Fires shots at a gateway from a thread of its own, many at a time, and reads every answer.

Each shot has a deadline: a gateway that neither answers nor closes in time hangs, and that fails.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop
from tests.integration.hostile.hostile_shot import Malformed, Shot, read_answer
from tests.integration.hostile.hostile_verdict import judge

T = TypeVar("T")
_Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]

# Above every timeout that the gateways under test have; an answer later than this is a hang.
_ANSWER_SECONDS = 20.0
_LINE_BYTES_MAX = 4 * 2**20
_AT_ONCE = 40


class Traffic:
    """`fire` sends and judges. `sent` counts shots by kind, `tally` how they were answered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._idle: list[_Pipe] = []
        self.tally: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self.sent.total()

    def fire(self, shots: Sequence[Shot], *, at_once: int = _AT_ONCE) -> list[str]:
        """Send all, this many at a time; how each was answered. The first bad answer is raised."""
        return self.run(self._fire(shots, at_once))

    def close(self) -> None:
        """Close the connections that were kept."""
        self.run(self._close_idle())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the traffic's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def _fire(self, shots: Sequence[Shot], at_once: int) -> list[str]:
        outcomes = [""] * len(shots)
        left = iter(enumerate(shots))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once, len(shots))):
                    group.create_task(self._fire_some(left, outcomes))
        except ExceptionGroup as failed:
            # One bad answer is enough to read.
            raise failed.exceptions[0] from None
        return outcomes

    async def _fire_some(self, left: Iterator[tuple[int, Shot]], outcomes: list[str]) -> None:
        for place, shot in left:
            self.sent[shot.kind] += 1
            outcomes[place] = outcome = await self._one(shot)
            self.tally[outcome] += 1

    async def _one(self, shot: Shot) -> str:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._exchange(shot)
        except Malformed as wrong:
            raise Malformed(f"{wrong}\nafter {shot.shown()}") from None
        except TimeoutError:
            raise Malformed(f"no answer in {_ANSWER_SECONDS} s\nafter {shot.shown()}") from None
        except (asyncio.IncompleteReadError, ConnectionError) as lost:
            if shot.may_be_dropped:
                return "dropped"
            raise Malformed(f"{type(lost).__name__}: {lost}\nafter {shot.shown()}") from None

    async def _exchange(self, shot: Shot) -> str:
        reader, writer = await self._pipe(shot)
        is_kept = False
        try:
            writer.write(shot.data)
            if shot.leaves_after is not None:
                await asyncio.sleep(shot.leaves_after)
                return "left"
            for _ in range(shot.answers):
                answer = await read_answer(reader, is_head=shot.is_head)
                outcome = judge(shot, answer)
            if answer.is_closing and not await _is_closed(reader, shot):
                raise Malformed("more comes after an answer that was announced as the last")
            is_kept = shot.is_framed and not answer.is_closing
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

    async def _close_idle(self) -> None:
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _is_closed(reader: asyncio.StreamReader, shot: Shot) -> bool:
    try:
        rest = await reader.read(-1)
    except ConnectionError:
        return True
    # A head that cannot be read may be a HEAD's all the same; its refusal has a body then.
    return not rest or shot.is_head
