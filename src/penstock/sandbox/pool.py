"""Holds the containers of a host: starts, warms, finds and ends them, by the host's own clock.

Promises: a kernel serves one container id and no other; a user and its memory are given to another
container only when nothing of the last one is left; there are never more than the host can hold.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import Final

from penstock.clock import Clock, new_id
from penstock.sandbox.box import BoxLost
from penstock.sandbox.container import Container, HeldBox
from penstock.sandbox.control_groups import BoxLimits
from penstock.sandbox.driver import BoxDriver, BoxSpec
from penstock.sandbox.places import HostPlace, Places, memory_mb_for_containers
from penstock.sandbox.refusals import SandboxRefused
from penstock.sandbox.settings import SandboxSettings
from penstock.wire.resources.sandbox import NewContainer, SandboxStatus, StartedContainer

_MIB: Final = 2**20
_STARTS_AT_ONCE: Final = 4
_LOOK_SECONDS: Final = 1.0
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.5, 60.0
_LOST_MAX: Final = 10_000
_STOPS: Final = "the sandbox host was stopped"

logger = logging.getLogger(__name__)


class BoxPool:
    """All containers of one start of the host, which `boot` names."""

    def __init__(self, driver: BoxDriver, settings: SandboxSettings, clock: Clock) -> None:
        self.boot = new_id().replace("-", "")
        self._driver = driver
        self._settings = settings
        self._clock = clock
        self._places = Places(
            range(settings.uid_first, settings.uid_first + settings.uids),
            containers_max=settings.containers_max,
            memory_mb=settings.memory_mb_total or memory_mb_for_containers(),
        )
        self._warm: deque[HeldBox] = deque()
        self._containers: dict[str, Container] = {}
        self._opening: dict[str, asyncio.Event] = {}
        # Of containers that ended without being asked to: why.
        self._lost: OrderedDict[str, str] = OrderedDict()
        # Ended, but something of them is left.
        self._remains: list[HeldBox] = []
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._started_count = 0
        self._failures = 0
        self._retry_at = 0.0
        self._has_room = asyncio.Event()
        self._is_closing = False

    def status(self) -> SandboxStatus:
        """Return what the host offers now."""
        return SandboxStatus(
            boot=self.boot,
            driver=self._driver.name,
            isolation=self._driver.isolation,
            is_dev=self._driver.isolation == "none",
            memory_tiers_mb=list(self._settings.memory_tiers_mb),
            containers=len(self._containers) + len(self._opening),
            containers_max=self._settings.containers_max,
            warm=len(self._warm),
        )

    async def open(self, id: str, wanted: NewContainer) -> StartedContainer:
        """Return a container's answer: of a new one, or of the one that has this id."""
        await self._wait_opened(id)
        if (known := self._containers.get(id)) is not None:
            return known.answer
        self._refuse_lost(id)
        self._refuse_closing()
        memory_mb = self._tier(wanted.memory_mb)
        opened = self._opening[id] = asyncio.Event()
        began = self._clock.monotonic()
        try:
            held, was_warm = await self._take(memory_mb)
            try:
                self._refuse_closing()
            except SandboxRefused:
                await self._finish(held)
                raise
            answer = StartedContainer(self.boot, was_warm)
            now = self._clock.monotonic()
            self._containers[id] = Container(id, held, self._bounded(wanted), answer, now)
        finally:
            del self._opening[id]
            opened.set()
        _log("started", id, memory_mb=memory_mb, was_warm=was_warm, seconds=round(now - began, 3))
        return answer

    def find(self, id: str) -> Container:
        """Return a container that is there; refuse with `lost` or `not_found`."""
        container = self._containers.get(id)
        if container is None:
            self._refuse_lost(id)
            raise SandboxRefused("not_found", "There is no such container on this host.")
        return container

    async def end(self, id: str) -> None:
        """End a container because a gateway asks for it."""
        await self._wait_opened(id)
        container = self.find(id)
        self.give_up(container, "a gateway ended it", is_asked=True)
        await self.finish(container)

    def give_up(self, container: Container, reason: str, *, is_asked: bool = False) -> None:
        """Let nobody find a container from now on; `finish` must follow."""
        if self._containers.pop(container.id, None) is None:
            return
        container.end_reason = reason
        if not is_asked:
            self._lost[container.id] = reason
            if len(self._lost) > _LOST_MAX:
                self._lost.popitem(last=False)
        lived = round(self._clock.monotonic() - container.began, 1)
        _log("ended", container.id, reason=reason, seconds=lived)

    async def finish(self, container: Container) -> None:
        """End the processes of a container that was given up; only the first call does it."""
        if not container.is_finished:
            container.is_finished = True
            await self._finish(container.held)

    async def expire(self) -> None:
        """End containers whose time is over, and try again to end what is left of others."""
        now = self._clock.monotonic()
        over = [each for each in self._containers.values() if each.expiry(now)]
        for container in over:
            self.give_up(container, container.expiry(now))
        remains, self._remains = self._remains, []
        ending = [*(self.finish(each) for each in over), *(self._finish(each) for each in remains)]
        await asyncio.gather(*ending)

    async def refill(self) -> bool:
        """Start one warm container if one is missing; return whether one was started.

        After a failure the next try waits, twice as long each time.
        """
        now = self._clock.monotonic()
        if self._is_closing or len(self._warm) >= self._settings.warm or now < self._retry_at:
            return False
        place = self._places.take(self._settings.memory_tiers_mb[0])
        if place is None:
            return False
        try:
            self._warm.append(await self._start(place))
        except SandboxRefused:
            pause = min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS * 2**self._failures)
            self._failures = min(self._failures + 1, 10)
            self._retry_at = self._clock.monotonic() + pause
            return False
        self._failures = 0
        return True

    @contextlib.asynccontextmanager
    async def tended(self) -> AsyncIterator[None]:
        """Warm and expire containers during the block; end all at its end."""
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(self._keep_warm()), tasks.create_task(self._keep_time())]
            try:
                yield
            finally:
                for loop in loops:
                    loop.cancel()
                await asyncio.wait(loops)
                await self.close()

    async def close(self) -> None:
        """Take nothing new, and end all containers."""
        self._is_closing = True
        for opened in list(self._opening.values()):
            await opened.wait()
        containers = list(self._containers.values())
        for container in containers:
            self.give_up(container, _STOPS)
        rest = [*self._warm, *self._remains]
        self._warm.clear()
        self._remains.clear()
        ending = [*(self.finish(each) for each in containers), *map(self._finish, rest)]
        await asyncio.gather(*ending)

    async def _keep_warm(self) -> None:
        while True:
            while await self.refill():
                pass
            self._has_room.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._has_room.wait()

    async def _keep_time(self) -> None:
        while True:
            await self.expire()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _wait_opened(self, id: str) -> None:
        while (opening := self._opening.get(id)) is not None:
            await opening.wait()

    def _refuse_lost(self, id: str) -> None:
        if id in self._lost:
            raise SandboxRefused("lost", f"The container is lost: {self._lost[id]}.")

    def _refuse_closing(self) -> None:
        if self._is_closing:
            raise SandboxRefused("full", "This sandbox host is stopping.")

    def _tier(self, memory_mb: int) -> int:
        """Return the least memory that is offered and enough."""
        tiers = self._settings.memory_tiers_mb
        enough = [each for each in tiers if each >= memory_mb]
        if not enough:
            raise SandboxRefused("refused", f"Containers have {tiers[-1]} MiB of memory at most.")
        return enough[0]

    def _bounded(self, wanted: NewContainer) -> NewContainer:
        life = min(wanted.life_seconds, self._settings.life_seconds_max)
        return NewContainer(
            memory_mb=wanted.memory_mb,
            idle_seconds=min(wanted.idle_seconds, life),
            life_seconds=life,
        )

    async def _take(self, memory_mb: int) -> tuple[HeldBox, bool]:
        """Return a container, and whether it was warm; warm ones make room for larger ones."""
        if memory_mb == self._settings.memory_tiers_mb[0] and self._warm:
            held = self._warm.popleft()
            self._has_room.set()
            return held, True
        warm = len(self._warm)
        place = self._places.take(memory_mb)
        if self._places.would_fit(memory_mb, warm, warm * self._settings.memory_tiers_mb[0]):
            while place is None and self._warm:
                await self._finish(self._warm.popleft())
                place = self._places.take(memory_mb)
        if place is None:
            raise SandboxRefused("full", "This sandbox host has no room for another container.")
        return await self._start(place), False

    async def _start(self, place: HostPlace) -> HeldBox:
        self._started_count += 1
        settings = self._settings
        limits = BoxLimits(
            memory_bytes=place.memory_mb * _MIB,
            processes_max=settings.pids_max,
            cpus=settings.cpus,
        )
        name = f"{self.boot}-{self._started_count}"
        spec = BoxSpec(name, place.uid, limits, settings.data_bytes)
        try:
            async with self._starts:
                return HeldBox(place, await self._driver.start(spec))
        except (BoxLost, OSError) as failure:
            # What could not be begun has left nothing.
            lost = failure if isinstance(failure, BoxLost) else BoxLost(str(failure))
            if lost.is_gone:
                self._places.give_back(place)
            logger.warning(
                "container did not start",
                extra={
                    "action": "container_not_started",
                    "reason": str(lost),
                    "complaints": lost.complaints,
                },
            )
            raise SandboxRefused("full", "The container did not start.") from None

    async def _finish(self, held: HeldBox) -> None:
        if await held.started.end():
            self._places.give_back(held.place)
            self._has_room.set()
            return
        self._remains.append(held)
        logger.error(
            "something is left of a container",
            extra={"action": "container_remains", "uid": held.place.uid},
        )


def _log(what: str, id: str, **fields: object) -> None:
    extra = {"action": f"container_{what}", "container": id, **fields}
    logger.info(f"container {what}", extra=extra)  # noqa: G004 - one of two fixed words
