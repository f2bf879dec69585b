"""Posts the traces that wait, beside the request path. What cannot be posted is dropped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.telemetry.otlp import SpanWriter, spans_of
from penstock.telemetry.settings import TelemetrySettings
from penstock.telemetry.traces import EndedTrace, Traces

_PAUSE_SECONDS: Final = 1.0
# Traces that are written in one go, in about half a millisecond.
_AT_ONCE: Final = 32

logger = logging.getLogger(__name__)


class TraceExport:
    """`post` sends one body; it returns what is wrong, or "" if the collector has taken it."""

    def __init__(
        self,
        traces: Traces,
        writer: SpanWriter,
        post: Callable[[bytes], Awaitable[str]],
        settings: TelemetrySettings,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._traces = traces
        self._writer = writer
        self._post = post
        self._batch = settings.traces_batch
        self._timeout = settings.traces_timeout_seconds
        self._pause = pause_seconds
        # What was wrong with the last post.
        self._problem = ""

    async def run(self) -> None:
        """Post what waits, every second, until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            await self._empty()

    async def finish(self) -> None:
        """Post what still waits when the process ends, for no longer than one post may take."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._empty()
        except TimeoutError:
            logger.warning("traces are lost", extra={"action": "traces_lost"})

    async def _empty(self) -> None:
        """Post until nothing waits, or a post fails: then the next ones can wait for a while."""
        while batch := self._traces.take(self._batch):
            problem = await self._try(batch)
            if problem:
                self._traces.dropped += len(batch)
            self._note(problem)
            if problem:
                return

    async def _try(self, batch: list[EndedTrace]) -> str:
        spans: list[bytes] = []
        epoch = self._traces.epoch()
        try:
            for number, ended in enumerate(batch, 1):
                spans += spans_of(ended, epoch)
                if number % _AT_ONCE == 0:
                    # Requests go on in between.
                    await asyncio.sleep(0)
            return await self._post(self._writer.body(spans))
        except Exception as failure:
            # The top of the loop: a fault in a trace must not end the process.
            logger.exception("traces cannot be written", extra={"action": "traces_failed"})
            return f"fault ({type(failure).__name__})"

    def _note(self, problem: str) -> None:
        """Log when posts begin to fail, and when they succeed again."""
        if problem and not self._problem:
            extra = {"action": "traces_dropped", "reason": problem}
            logger.warning("traces are not taken", extra=extra)
        elif self._problem and not problem:
            logger.info("traces are taken again", extra={"action": "traces_taken"})
        self._problem = problem
