"""Queues requests that wait for leases; its loop asks Postgres for them, between its chores.

Postgres counts as away after StoreUnavailable, or when it has not answered for
`lease_wait_seconds`. Slow chores or a long queue never count as an outage.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from penstock import errors
from penstock.admission.division import Answer, Demand
from penstock.admission.hold import HeldAmounts
from penstock.admission.lease_desk import LeaseDesk
from penstock.admission.periodic_step import PeriodicStep
from penstock.admission.settings import AdmissionSettings
from penstock.clock import Clock

logger = logging.getLogger(__name__)

# The part of `lease_wait_seconds` after which a piece of a chore is stopped, so that requests are
# served before they have waited too long.
_PIECE_PART: Final = 0.8
_CROWDED: Final = "Too many requests wait for a part of their limits."


class LeaseQueue:
    """`ask` waits for an answer; the owner calls `work` in a loop, and `end` after the loop."""

    def __init__(
        self,
        desk: LeaseDesk,
        chores: Sequence[PeriodicStep],
        clock: Clock,
        settings: AdmissionSettings,
    ) -> None:
        self.is_away = False
        self.failures = 0
        self._desk = desk
        self._chores = chores
        self._clock = clock
        self._settings = settings
        self._waiting: deque[Demand] = deque()
        # The demands of the current transaction.
        self._asked: list[Demand] = []
        self._wanted = asyncio.Event()
        self._pause = min(chore.every for chore in chores)

    async def ask(self, amounts: HeldAmounts) -> Answer:
        """Wait for the next transaction, up to `lease_wait_seconds`; then for its answer."""
        if self.is_away:
            return errors.StoreUnavailable()
        if len(self._waiting) >= self._settings.lease_waiting_max:
            raise errors.Overloaded(_CROWDED)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        demand = Demand(amounts, answer)
        self._waiting.append(demand)
        self._wanted.set()
        try:
            await asyncio.wait((answer,), timeout=self._settings.lease_wait_seconds)
            if not answer.done() and demand not in self._asked:
                # Its turn never came. That is no outage, so it may not go on without a lease.
                answer.cancel()
                raise errors.Overloaded(_CROWDED)
            return await answer
        except asyncio.CancelledError:
            answer.cancel()
            if not answer.cancelled() and answer.result() is None:
                demand.release()
            raise

    async def work(self) -> None:
        """Wait for something to do, and do one piece of each chore that is due.

        Waiting requests are served after each piece, so none waits for more than one.
        """
        await self._wait_for_turn()
        is_heard = True
        try:
            for chore in self._chores:
                if self.is_away or chore.is_due(self._clock.monotonic()):
                    is_heard = await self._do_piece(chore) and is_heard
                    await self._serve()
            await self._serve()
        except errors.StoreUnavailable:
            self._fail()
            logger.warning("limits not kept up", extra={"action": "limits_not_kept_up"})
        except Exception:
            # The top of the loop: whatever the error, waiting requests must get an answer.
            self._fail()
            logger.exception("limits not kept up", extra={"action": "limits_not_kept_up"})
        else:
            if is_heard:
                self.is_away = False

    def end(self) -> None:
        """Answer all waiting requests: go on without Postgres."""
        self.is_away = True
        _turn_away(self._asked)
        _turn_away(self._waiting)

    async def _wait_for_turn(self) -> None:
        now = self._clock.monotonic()
        if not self.is_away and (self._waiting or any(each.is_due(now) for each in self._chores)):
            return
        self._wanted.clear()
        pause = self._settings.outage_retry_seconds if self.is_away else self._pause
        try:
            async with asyncio.timeout(pause):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _do_piece(self, chore: PeriodicStep) -> bool:
        """Do one piece of a chore; return whether Postgres answered in time."""
        now = self._clock.monotonic()
        seconds = None if self.is_away else self._settings.lease_wait_seconds * _PIECE_PART
        try:
            with self._watching():
                async with asyncio.timeout(seconds):
                    await chore.do_piece(now)
        except errors.StoreUnavailable:
            raise
        except TimeoutError:
            self.failures += 1
            chore.put_off(now)
            logger.warning("limits not kept up in time", extra={"action": "limits_kept_up_late"})
            return False
        except Exception:
            # A bug in this chore must not keep requests from getting leases.
            self.failures += 1
            chore.put_off(now)
            logger.exception("limits not kept up", extra={"action": "limits_not_kept_up"})
        return True

    async def _serve(self) -> None:
        """Ask Postgres for the requests that have waited longest."""
        count = min(len(self._waiting), self._settings.lease_batch_max)
        if not count:
            return
        self._asked = [self._waiting.popleft() for _ in range(count)]
        with self._watching():
            again = await self._desk.serve(self._asked)
        self._asked = []
        self._waiting.extendleft(reversed(again))

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Count Postgres as away if the block does not end in time."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._settings.lease_wait_seconds, self.end)
        try:
            yield
        finally:
            timer.cancel()

    def _fail(self) -> None:
        self.failures += 1
        self.end()


def _turn_away(demands: list[Demand] | deque[Demand]) -> None:
    for demand in demands:
        if not demand.answer.done():
            demand.answer.set_result(errors.StoreUnavailable())
    demands.clear()
