"""A request's coroutine, run without a task for as long as it waits for its engine alone.

A task takes a handle of the event loop to start, one to wake and one to end, and a place in
asyncio's weak set of all tasks: about 15,000 instructions, a twentieth of a small request. A `Run`
steps the coroutine itself, and the attempt that it waits for wakes it in the same turn of the loop.
For all else (a new connection, a lease, a turn at the gate) a task takes it over.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

logger = logging.getLogger(__name__)


class _Stepped:
    """Whether what runs now is stepped by a run.

    Not to be known by asyncio's current task: a run may be woken by what another task does.
    """

    __slots__ = ("by_run",)

    def __init__(self) -> None:
        self.by_run = False


_stepped: Final = _Stepped()


class Finish:
    """Set once. One coroutine may wait for it, in a run or in a task."""

    __slots__ = ("_future", "_run", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._run: Run | None = None
        self._future: asyncio.Future[None] | None = None

    def set(self) -> None:
        """What waits goes on: at once if it is a run, in the loop's next turn if it is a task."""
        if self.is_set:
            return
        self.is_set = True
        run, self._run = self._run, None
        if run is not None:
            run.wake()
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)

    def hold(self, run: "Run | None") -> None:
        """Wake this one when it is set, or nobody."""
        self._run = run

    def __await__(self) -> Generator[Any, None, None]:
        if self.is_set:
            return
        if _stepped.by_run:
            yield self
        else:
            self._future = asyncio.get_running_loop().create_future()
            yield from self._future


class InTask:
    """Awaited before what only a task can do, such as `asyncio.timeout`; costs a task nothing."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        if _stepped.by_run:
            yield


class Run:
    """One coroutine to its end. It must let no exception out but CancelledError."""

    __slots__ = ("_coroutine", "_finish", "_is_begun", "_is_cancelled", "_loop", "_on_end", "_rest")

    def __init__(
        self,
        coroutine: Coroutine[Any, None, None],
        on_end: Callable[["Run"], object],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        # None when it has ended.
        self._coroutine: Coroutine[Any, None, None] | None = coroutine
        self._on_end = on_end
        self._loop = loop
        self._is_begun = False
        self._is_cancelled = False
        # What it waits for; or what is left of it, in a task.
        self._finish: Finish | None = None
        self._rest: _Rest | None = None

    def start(self) -> None:
        """Run up to the first wait, unless it was cancelled before."""
        if not self._is_cancelled:
            self._is_begun = True
            self._step(None)

    def wake(self) -> None:
        """What it waited for has come."""
        self._finish = None
        self._step(None)

    def cancel(self, msg: object = None) -> None:
        """In the loop's next turn, as for a task: who cancels many must not see them end by it."""
        del msg
        if self._coroutine is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._loop.call_soon(self._cancel)

    def _step(self, error: BaseException | None) -> None:
        """To the next wait, outside of any task."""
        coroutine = self._coroutine
        if coroutine is None:
            return
        before, _stepped.by_run = _stepped.by_run, True
        try:
            found = coroutine.send(None) if error is None else coroutine.throw(error)
        except (StopIteration, asyncio.CancelledError):
            self._end()
        except Exception:
            logger.exception("request crashed", extra={"action": "crash"})
            self._end()
        else:
            if isinstance(found, Finish):
                self._finish = found
                found.hold(self)
            else:
                self._rest = _Rest(coroutine, found)
                self._rest.task = self._loop.create_task(self._go_on(self._rest), name="request")
        finally:
            _stepped.by_run = before
            # Its traceback holds this frame: a body would stay until garbage is collected.
            del error

    async def _go_on(self, rest: "_Rest") -> None:
        try:
            await rest
        finally:
            self._end()

    def _cancel(self) -> None:
        coroutine = self._coroutine
        if coroutine is None:
            return
        if not self._is_begun:
            coroutine.close()
            self._end()
            return
        # What has outlived one may be cancelled again, as a task may.
        self._is_cancelled = False
        if self._rest is not None:
            self._rest.cancel()
        elif self._finish is not None:
            self._finish.hold(None)
            self._finish = None
            self._step(asyncio.CancelledError())

    def _end(self) -> None:
        self._coroutine = None
        self._on_end(self)


class _Rest:
    """What is left of a coroutine that waits for `found`, which is the event loop's."""

    __slots__ = ("_coroutine", "_found", "_is_begun", "_is_cancelled", "task")

    def __init__(self, coroutine: Coroutine[Any, None, None], found: object) -> None:
        self._coroutine = coroutine
        self._found = found
        self._is_begun = False
        self._is_cancelled = False
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """A task that has not begun would end without a word to what it runs."""
        if not self._is_begun:
            self._is_cancelled = True
            if isinstance(self._found, asyncio.Future):
                self._found.cancel()
        elif self.task is not None:
            self.task.cancel()

    def __await__(self) -> Generator[Any, None, None]:
        self._is_begun = True
        found = self._found
        error: BaseException | None = asyncio.CancelledError() if self._is_cancelled else None
        while True:
            if error is None:
                try:
                    yield found
                except BaseException as thrown:  # noqa: BLE001 - it is thrown on
                    error = thrown
            try:
                found = (
                    self._coroutine.send(None) if error is None else self._coroutine.throw(error)
                )
            except StopIteration:
                return
            error = None
