"""Starts on sandbox hosts that fail in the middle, and what is known of hosts meanwhile."""

import asyncio
from typing import Any, cast

from penstock.clock import SystemClock, new_id
from penstock.errors import ContainerExpired, Error, SandboxLost, SandboxUnavailable
from penstock.tools import ContainerId, SandboxHosts, ToolsSettings
from penstock.tools.sandbox_hosts import WantedContainer
from penstock.wire.resources.sandbox import SandboxStatus, StartedContainer

WANTED = WantedContainer(idle_seconds=60.0, life_seconds=600.0)
FIRST, SECOND = "http://first", "http://second"


class Host:
    """A host whose starts and statuses wait, or fail."""

    def __init__(self, *, warm: int = 0, failure: Error | None = None) -> None:
        self.warm = warm
        self.failure = failure
        self.refusal: Error | None = None
        self.asked = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.ended: list[ContainerId] = []

    async def status(self) -> SandboxStatus:
        self.asked.set()
        await self.goes_on.wait()
        if self.refusal is not None:
            raise self.refusal
        return SandboxStatus(
            boot="boot",
            driver="bubblewrap",
            isolation="namespaces",
            is_dev=False,
            memory_tiers_mb=[1024],
            containers=0,
            containers_max=10,
            warm=self.warm,
        )

    async def start(self, *_: object) -> StartedContainer:
        self.asked.set()
        await self.goes_on.wait()
        if self.failure is not None:
            raise self.failure
        return StartedContainer("boot", was_warm=True)

    async def end(self, id: ContainerId) -> None:
        self.ended.append(id)


def hosts_of(first: Host, second: Host) -> SandboxHosts:
    hosts = SandboxHosts(ToolsSettings(sandbox_hosts=(FIRST, SECOND)), SystemClock())
    cast("Any", hosts)._hosts = {FIRST: first, SECOND: second}
    return hosts


async def test_a_start_without_an_answer_is_ended_and_the_next_host_taken() -> None:
    first, second = Host(warm=2, failure=SandboxLost()), Host()
    id = ContainerId(new_id())
    placed = await hosts_of(first, second).place(id, WANTED, is_shared=False)
    assert placed.offer.url == SECOND
    assert (first.ended, second.ended) == ([id], [])


async def test_a_start_for_which_nobody_waits_any_more_is_ended() -> None:
    first, second = Host(warm=2), Host()
    hosts = hosts_of(first, second)
    await hosts.offers()
    first.asked.clear()
    first.goes_on.clear()
    id = ContainerId(new_id())
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(hosts.place(id, WANTED, is_shared=False))
        await first.asked.wait()
        starting.cancel()
    assert starting.cancelled()
    assert first.ended == [id]


async def test_a_start_that_was_refused_left_nothing_to_end() -> None:
    first, second = Host(warm=2, failure=SandboxUnavailable()), Host()
    await hosts_of(first, second).place(ContainerId(new_id()), WANTED, is_shared=False)
    assert first.ended == []


async def test_a_start_that_fails_while_hosts_are_asked_hides_its_host_only() -> None:
    first, second = Host(warm=2), Host()
    hosts = hosts_of(first, second)
    await hosts.status(FIRST)
    second.goes_on.clear()
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(hosts.offers())
        await second.asked.wait()
        # As `place` does after a start that failed.
        cast("Any", hosts)._known.pop(FIRST)
        second.goes_on.set()
    assert [each.url for each in asking.result()] == [SECOND]


async def test_a_host_that_refuses_its_status_is_left_out() -> None:
    first, second = Host(), Host()
    first.refusal = ContainerExpired()
    assert [each.url for each in await hosts_of(first, second).offers()] == [SECOND]
