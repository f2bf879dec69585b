"""Answers equal questions of many readers by one reading: live pages ask the same every 2 s."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from penstock.clock import Clock

_KEPT_MAX: Final = 1000

Answered = TypeVar("Answered")


class _Outcome(NamedTuple):
    """What a reading brought: an answer, or why there is none."""

    answer: Any
    error: Exception | None


class _Reading(NamedTuple):
    """A reading, which is under way or done."""

    until: float
    task: asyncio.Task[_Outcome]

    def is_shared_at(self, now: float) -> bool:
        """Return whether its answer serves somebody who asks now."""
        if not self.task.done():
            # However long it takes: a second one beside it would make a slow database slower.
            return True
        return now < self.until and not self.task.cancelled() and self.task.result().error is None


class SharedReadings:
    """Keeps each answer for a moment; who asks while it is being read waits for the same one."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._kept: dict[Any, _Reading] = {}

    async def read(
        self, question: object, seconds: float, reading: Callable[[], Awaitable[Answered]]
    ) -> Answered:
        """Return the answer to a question, of a reading that began at most `seconds` ago.

        A reading that takes longer is shared until its end.
        """
        now = self._monotonic()
        known = self._kept.get(question)
        if known is None or not known.is_shared_at(now):
            self._drop_old(now)
            # A task of its own: the reader that began it may leave before the others.
            task = asyncio.ensure_future(_outcome_of(reading))
            known = self._kept[question] = _Reading(now + seconds, task)
        outcome = await asyncio.shield(known.task)
        if outcome.error is not None:
            # Each waiting reader raises it: without this its traceback grows with each of them.
            raise outcome.error.with_traceback(None)
        answer: Answered = outcome.answer
        return answer

    def forget(self) -> None:
        """Read everything anew, because something was changed."""
        self._kept.clear()

    def _drop_old(self, now: float) -> None:
        for question in [each for each, kept in self._kept.items() if not kept.is_shared_at(now)]:
            del self._kept[question]
        while len(self._kept) >= _KEPT_MAX:
            del self._kept[next(iter(self._kept))]


async def _outcome_of(reading: Callable[[], Awaitable[Any]]) -> _Outcome:
    try:
        return _Outcome(await reading(), None)
    except Exception as error:  # noqa: BLE001 - raised again in those who wait, if any still do
        return _Outcome(None, error)
