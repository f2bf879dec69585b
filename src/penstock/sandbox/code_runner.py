"""Runs the calls of containers: each goes on when nobody reads it, and is never run twice."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from penstock.clock import Clock
from penstock.sandbox.box import Box, BoxLost
from penstock.sandbox.calls import Call, KeptLines
from penstock.sandbox.code_lines import code_lines
from penstock.sandbox.container import Container
from penstock.sandbox.pool import BoxPool
from penstock.sandbox.refusals import SandboxRefused
from penstock.sandbox.settings import SandboxSettings
from penstock.wire.resources.sandbox import CodeCall, ContainerLost, Failed

_BUSY: Final = "The container runs a call."

logger = logging.getLogger(__name__)


class CodeRunner:
    """Give `run` and `use` containers that the pool has just found. `tasks` holds the calls."""

    def __init__(
        self, pool: BoxPool, settings: SandboxSettings, clock: Clock, tasks: asyncio.TaskGroup
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._tasks = tasks
        self._kept = KeptLines(settings.kept_bytes_max)
        self._running = 0

    def run(self, container: Container, wanted: CodeCall) -> Call:
        """Begin a call, or return the one that has this id: it may run, or have ended."""
        known = container.find_call(wanted.call_id)
        if known is not None and known.is_forgotten:
            raise SandboxRefused("refused", "That call has run, and its lines are no longer kept.")
        if known is not None:
            return known
        if container.running is not None:
            raise SandboxRefused("busy", _BUSY)
        if self._running >= self._settings.execs_at_once_max:
            raise SandboxRefused("full", "This sandbox host runs as many calls as it may.")
        call = container.running = Call(wanted.call_id)
        oldest = container.add_call(call)
        if oldest is not None:
            self._kept.drop(oldest)
        self._running += 1
        self._tasks.create_task(self._run(container, call, wanted))
        return call

    @contextlib.asynccontextmanager
    async def use(self, container: Container) -> AsyncIterator[Box]:
        """Ask a container for something else than a call; none may run."""
        if container.running is not None:
            raise SandboxRefused("busy", _BUSY)
        async with container.lock:
            if container.end_reason:
                raise SandboxRefused("lost", f"The container is lost: {container.end_reason}.")
            try:
                yield container.box
            except BoxLost as lost:
                reason = self._give_up(container, str(lost))
                await self._pool.finish(container)
                raise SandboxRefused("lost", f"The container is lost: {reason}.") from None
            finally:
                container.used = self._clock.monotonic()

    async def _run(self, container: Container, call: Call, wanted: CodeCall) -> None:
        began = self._clock.monotonic()
        try:
            outcome = await self._run_code(container, call, wanted)
        except Exception as failure:
            logger.exception("a call failed", extra={"action": "sandbox_call_failed"})
            outcome = "lost"
            call.add(ContainerLost(self._give_up(container, f"the host failed: {failure!r}")))
        finally:
            container.running = None
            container.used = self._clock.monotonic()
            self._running -= 1
            call.end()
        seconds = round(container.used - began, 4)
        fields = {"container": container.id, "seconds": seconds, "outcome": outcome}
        logger.info("code was run", extra={"action": "sandbox_call", **fields})
        if container.end_reason:
            # Nobody can ask for their lines any more.
            for each in container.calls:
                self._kept.drop(each)
            await self._pool.finish(container)
        else:
            self._kept.keep(call)

    async def _run_code(self, container: Container, call: Call, wanted: CodeCall) -> str:
        """Run it and return how it ended."""
        settings = self._settings
        seconds = min(wanted.seconds or settings.exec_seconds, settings.exec_seconds_max)
        outcome = "ok"
        try:
            async with container.lock:
                lines = code_lines(container.box, wanted.code, seconds, self._clock)
                async for line in lines:
                    outcome = "failed" if isinstance(line, Failed) else outcome
                    call.add(line)
        except BoxLost as lost:
            call.add(ContainerLost(self._give_up(container, str(lost))))
            return "lost"
        return outcome

    def _give_up(self, container: Container, reason: str) -> str:
        """Give a container up and return the first reason for which that was done."""
        self._pool.give_up(container, reason)
        return container.end_reason
