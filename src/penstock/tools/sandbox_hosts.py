"""Knows the sandbox hosts, and chooses one for a new container."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.errors import (
    Error,
    Forbidden,
    InvalidRequest,
    SandboxLost,
    SandboxUnavailable,
)
from penstock.tools.container_ids import ContainerId
from penstock.tools.sandbox_client import SandboxHost
from penstock.tools.settings import ToolsSettings
from penstock.wire.resources.sandbox import NewContainer, SandboxStatus, StartedContainer

_KEPT_SECONDS: Final = 1.0
# A host that did not answer is not asked again before.
_LEFT_OUT_SECONDS: Final = 10.0
# Containers of other drivers share the host's kernel.
_OWN_KERNEL: Final = frozenset({"gvisor"})
_MB_PER_GB: Final = 1024
_MEMORY_DIGITS_MAX: Final = 6
HOST_FAILURES: Final = (SandboxUnavailable, SandboxLost)


class Offer(msgspec.Struct, frozen=True):
    """A host, and what it offers."""

    url: str
    status: SandboxStatus


class WantedContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container to start; without `memory_mb` it gets the smallest that a host has."""

    memory_mb: int | None = None
    idle_seconds: float
    life_seconds: float


class Placed(msgspec.Struct, frozen=True):
    """A container that a host has started."""

    offer: Offer
    memory_mb: int
    started: StartedContainer


class SandboxHosts:
    """The hosts of `tools.sandbox_hosts`. Their status is kept for a second."""

    def __init__(self, settings: ToolsSettings, clock: Clock) -> None:
        self._hosts = {
            url: SandboxHost(url, settings)
            for url in (given.rstrip("/") for given in settings.sandbox_hosts)
        }
        self._allows_shared_kernel = settings.allow_shared_kernel
        self._monotonic = clock.monotonic
        # When each was asked last, and its answer; None if there was none.
        self._known: dict[str, tuple[float, SandboxStatus | None]] = {}
        self._asking = asyncio.Lock()

    def host(self, url: str) -> SandboxHost:
        """Return the host with this address; SandboxUnavailable if the settings list no such."""
        host = self._hosts.get(url)
        if host is None:
            raise SandboxUnavailable("The container's sandbox host is no longer in use here.")
        return host

    async def status(self, url: str) -> SandboxStatus | None:
        """Return a host's status; None if it does not answer, or is not listed."""
        if url not in self._hosts:
            return None
        await self._ask([url])
        return self._status_of(url)

    async def place(self, id: ContainerId, wanted: WantedContainer, *, is_shared: bool) -> Placed:
        """Start a container on the best host that takes it.

        `is_shared` says whether more than one account uses these hosts.
        """
        offers = await self.offers()
        if not offers:
            raise SandboxUnavailable
        if is_shared and not self._allows_shared_kernel:
            offers = _with_own_kernel(offers)
        for offer in ranked(offers, wanted.memory_mb):
            asked = NewContainer(
                memory_mb=wanted.memory_mb or min(offer.status.memory_tiers_mb),
                idle_seconds=wanted.idle_seconds,
                life_seconds=wanted.life_seconds,
            )
            try:
                started = await self._start(offer.url, id, asked)
            except HOST_FAILURES:
                self._known.pop(offer.url, None)
                continue
            if started.boot != offer.status.boot:
                # It was started anew since it was asked: what is known of it is of its old boot.
                self._known.pop(offer.url, None)
            return Placed(offer, asked.memory_mb, started)
        raise SandboxUnavailable

    async def offers(self) -> list[Offer]:
        """Return the hosts that answer."""
        await self._ask(list(self._hosts))
        return [
            Offer(url, status)
            for url in self._hosts
            if (status := self._status_of(url)) is not None
        ]

    async def _start(self, url: str, id: ContainerId, asked: NewContainer) -> StartedContainer:
        """Start a container; one that may have started and that nobody waits for is ended."""
        host = self._hosts[url]
        try:
            return await host.start(id, asked)
        except SandboxUnavailable:
            raise
        except BaseException:
            # Cancelled, or without an answer: the host may hold it until it is idle.
            with contextlib.suppress(*HOST_FAILURES):
                await host.end(id)
            raise

    def _status_of(self, url: str) -> SandboxStatus | None:
        """Return what is known; None also if a start that failed has just dropped it."""
        known = self._known.get(url)
        return None if known is None else known[1]

    async def _ask(self, urls: Sequence[str]) -> None:
        """Ask those of these hosts, all at once, of which too little is known."""
        async with self._asking:
            now = self._monotonic()
            old = [url for url in urls if not self._is_known(url, now)]
            async with asyncio.TaskGroup() as group:
                for url in old:
                    group.create_task(self._ask_one(url))

    async def _ask_one(self, url: str) -> None:
        try:
            status: SandboxStatus | None = await self._hosts[url].status()
        except Error:
            # Also a refusal that no sandbox host would give.
            status = None
        self._known[url] = (self._monotonic(), status)

    def _is_known(self, url: str, now: float) -> bool:
        known = self._known.get(url)
        if known is None:
            return False
        at, status = known
        return now - at < (_LEFT_OUT_SECONDS if status is None else _KEPT_SECONDS)


def ranked(offers: Sequence[Offer], memory_mb: int | None) -> list[Offer]:
    """Return the hosts with room, the best first: most warm kernels, then most room. Pure.

    InvalidRequest if none of them, full or not, has containers of this memory.
    """
    fitting = [
        offer
        for offer in offers
        if offer.status.memory_tiers_mb
        and (memory_mb is None or memory_mb in offer.status.memory_tiers_mb)
    ]
    if not fitting:
        tiers = {tier for offer in offers for tier in offer.status.memory_tiers_mb}
        raise InvalidRequest(
            f"`memory_limit` is one of {_listed(tiers)} here.", param="memory_limit"
        )
    free = [offer for offer in fitting if _room(offer) > 0]
    return sorted(free, key=lambda offer: (-offer.status.warm, -_room(offer), offer.url))


def read_memory(text: str | None) -> int | None:
    """Return the MiB of a memory limit such as `1g`, 0 if it is none; None for the smallest."""
    if text is None:
        return None
    unit = _MB_PER_GB if text.endswith("g") else 1
    digits = text.rstrip("gm")
    is_number = len(digits) <= _MEMORY_DIGITS_MAX and digits.isascii() and digits.isdigit()
    return int(digits) * unit if is_number else 0


def memory_text(memory_mb: int) -> str:
    """Return an amount of memory as clients write it: 1024 is `1g`."""
    gb, rest = divmod(memory_mb, _MB_PER_GB)
    return f"{memory_mb}m" if rest else f"{gb}g"


def _with_own_kernel(offers: Sequence[Offer]) -> list[Offer]:
    found = [offer for offer in offers if offer.status.isolation in _OWN_KERNEL]
    if not found:
        status = offers[0].status
        raise Forbidden(
            f"This installation has more than one account, and containers of its sandbox"
            f" ({status.driver}, isolation {status.isolation}) share their host's kernel. Its"
            f" operator may allow that: `tools.allow_shared_kernel = true`."
        )
    return found


def _room(offer: Offer) -> int:
    return offer.status.containers_max - offer.status.containers


def _listed(tiers: Iterable[int]) -> str:
    return ", ".join(memory_text(tier) for tier in sorted(tiers)) or "none"
