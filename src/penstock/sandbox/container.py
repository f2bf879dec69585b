"""One container of a gateway: its kernel, its times, and its last calls."""

import asyncio
from collections import OrderedDict
from typing import Final

import msgspec

from penstock.sandbox.box import Box
from penstock.sandbox.calls import Call
from penstock.sandbox.driver import StartedBox
from penstock.sandbox.places import HostPlace
from penstock.wire.resources.sandbox import NewContainer, StartedContainer

CALLS_MAX: Final = 64


class HeldBox(msgspec.Struct, frozen=True):
    """A started container with the place that it takes."""

    place: HostPlace
    started: StartedBox


class Container:
    """A container that a gateway has asked for; `now` is the host's monotonic time."""

    def __init__(
        self, id: str, held: HeldBox, wanted: NewContainer, answer: StartedContainer, now: float
    ) -> None:
        self.id = id
        self.held = held
        self.answer = answer
        self.began = self.used = now
        self.running: Call | None = None
        # A kernel serves one request at a time.
        self.lock = asyncio.Lock()
        # Why it has ended, or is about to.
        self.end_reason = ""
        self.is_finished = False
        self._idle_seconds = wanted.idle_seconds
        self._life_seconds = wanted.life_seconds
        self._calls: OrderedDict[str, Call] = OrderedDict()

    @property
    def box(self) -> Box:
        return self.held.started.box

    @property
    def calls(self) -> list[Call]:
        return list(self._calls.values())

    def find_call(self, call_id: str) -> Call | None:
        return self._calls.get(call_id)

    def add_call(self, call: Call) -> Call | None:
        """Remember a call; return the oldest one if it is one too many."""
        self._calls[call.id] = call
        return self._calls.popitem(last=False)[1] if len(self._calls) > CALLS_MAX else None

    def expiry(self, now: float) -> str:
        """Return why its time is over, empty if it is not."""
        if now - self.began >= self._life_seconds:
            return "the container had lived as long as it may"
        is_idle = self.running is None and not self.lock.locked()
        if is_idle and now - self.used >= self._idle_seconds:
            return "the container was not used for too long"
        return ""
