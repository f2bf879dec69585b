"""The pool of a sandbox host, with a driver that starts nothing and a clock that the test moves."""

import asyncio
import itertools
from typing import cast

import pytest

from penstock.sandbox.box import Box, BoxLost
from penstock.sandbox.calls import Call, KeptLines
from penstock.sandbox.code_lines import changed_files
from penstock.sandbox.driver import BoxSpec
from penstock.sandbox.places import Places, memory_mb_for_containers
from penstock.sandbox.pool import BoxPool
from penstock.sandbox.refusals import SandboxRefused
from penstock.sandbox.settings import SandboxSettings
from penstock.testing import ManualClock
from penstock.wire.resources.sandbox import FileEntry, NewContainer, Output


class _Started:
    def __init__(self, driver: "_Driver", spec: BoxSpec) -> None:
        self._driver = driver
        self.spec = spec
        self.box = cast(Box, self)
        self.ends = 0

    async def end(self) -> bool:
        self.ends += 1
        await asyncio.sleep(0)
        return self.spec.uid not in self._driver.clinging


class _Driver:
    name = "fake"
    isolation = "namespaces"

    def __init__(self) -> None:
        self.started: list[_Started] = []
        # Users of whom something is left, and what the next starts raise.
        self.clinging: set[int] = set()
        self.failures: list[Exception] = []

    def problem(self) -> str:
        return ""

    def clear(self) -> None:
        return

    async def start(self, spec: BoxSpec) -> _Started:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        self.started.append(_Started(self, spec))
        return self.started[-1]


class _Host:
    def __init__(self, **settings: int) -> None:
        self.driver = _Driver()
        self.clock = ManualClock()
        values = {"containers_max": 4, "uids": 4, "memory_mb_total": 8192, "warm": 1, **settings}
        self.pool = BoxPool(self.driver, SandboxSettings(**values), self.clock)  # type: ignore[arg-type]

    async def open(self, number: int, memory_mb: int = 1024, **times: float) -> bool:
        """Whether it was warm."""
        times = {"idle_seconds": 60, "life_seconds": 600, **times}
        wanted = NewContainer(memory_mb=memory_mb, **times)
        return (await self.pool.open(f"{number:032x}", wanted)).was_warm

    async def refused(self, number: int, memory_mb: int = 1024) -> str:
        with pytest.raises(SandboxRefused) as refused:
            await self.open(number, memory_mb)
        return refused.value.body.code

    def find(self, number: int) -> str:
        """Return the refusal's code, empty if it is there."""
        try:
            self.pool.find(f"{number:032x}")
        except SandboxRefused as refused:
            return refused.body.code
        return ""


async def test_a_warm_kernel_is_given_once() -> None:
    host = _Host()
    assert await host.pool.refill()
    assert not await host.pool.refill()
    assert [await host.open(1), await host.open(2)] == [True, False]
    assert host.pool.find(f"{1:032x}").box is not host.pool.find(f"{2:032x}").box
    await host.pool.end(f"{1:032x}")
    assert host.driver.started[0].ends == 1
    assert not await host.open(3)
    assert len({each.spec.name for each in host.driver.started}) == 3


async def test_the_same_id_is_the_same_container_also_at_once() -> None:
    host = _Host()
    assert await asyncio.gather(*(host.open(1) for _ in range(5))) == [False] * 5
    assert len(host.driver.started) == 1
    assert host.pool.status().containers == 1


async def test_time_ends_containers_by_the_host_s_clock() -> None:
    host = _Host()
    await host.open(1, idle_seconds=10)
    await host.open(2, life_seconds=20)
    host.clock.advance(9.9)
    await host.pool.expire()
    assert [host.find(1), host.find(2)] == ["", ""]
    host.clock.advance(0.1)
    await host.pool.expire()
    assert [host.find(1), host.find(2)] == ["lost", ""]
    host.pool.find(f"{2:032x}").used = host.clock.monotonic() + 10
    host.clock.advance(10)
    await host.pool.expire()
    assert host.find(2) == "lost"
    assert await host.refused(2) == "lost"
    assert [each.ends for each in host.driver.started] == [1, 1]


async def test_a_running_call_is_not_idle() -> None:
    host = _Host()
    await host.open(1, idle_seconds=10)
    host.pool.find(f"{1:032x}").running = Call("c")
    host.clock.advance(100)
    await host.pool.expire()
    assert host.find(1) == ""


async def test_a_gateway_s_life_is_bounded_by_the_host() -> None:
    host = _Host(life_seconds_max=30)
    await host.open(1, idle_seconds=10**9, life_seconds=10**9)
    host.clock.advance(30)
    await host.pool.expire()
    assert host.find(1) == "lost"


async def test_a_user_is_not_given_again_while_something_is_left() -> None:
    host = _Host(containers_max=1, uids=1, warm=0)
    await host.open(1)
    uid = host.driver.started[0].spec.uid
    host.driver.clinging.add(uid)
    await host.pool.end(f"{1:032x}")
    assert await host.refused(2) == "full"
    await host.pool.expire()
    assert await host.refused(2) == "full"
    host.driver.clinging.clear()
    await host.pool.expire()
    await host.open(2)
    assert [each.spec.uid for each in host.driver.started] == [uid, uid]


async def test_a_failed_start_that_left_something_keeps_its_user() -> None:
    host = _Host(containers_max=1, uids=1, warm=0)
    host.driver.failures = [BoxLost("stuck", "bwrap: no", is_gone=False), OSError("no room")]
    assert await host.refused(1) == "full"
    assert not host.driver.started
    assert await host.refused(1) == "full"
    assert not host.driver.failures
    assert await host.refused(1) == "full"
    assert not host.driver.started


async def test_warming_waits_longer_after_each_failure() -> None:
    host = _Host()
    host.driver.failures = [BoxLost("no"), BoxLost("no"), BoxLost("no")]
    tries = []
    for tenth in range(60):
        left = len(host.driver.failures)
        started = await host.pool.refill()
        if started or len(host.driver.failures) < left:
            tries.append(tenth)
        host.clock.advance(0.1)
    pauses = [later - tenth for tenth, later in itertools.pairwise(tries)]
    assert [round(pause / 5) for pause in pauses] == [1, 2, 4]
    assert host.pool.status().warm == 1


async def test_what_is_full_is_refused() -> None:
    host = _Host(containers_max=2)
    assert await host.pool.refill()
    await host.open(1)
    await host.open(2)
    assert await host.refused(3) == "full"
    assert not await host.pool.refill()
    assert await host.refused(4, memory_mb=4097) == "refused"


async def test_memory_of_all_together_is_bounded_and_warm_ones_make_room() -> None:
    host = _Host(warm=2, memory_mb_total=5120)
    while await host.pool.refill():
        pass
    assert host.pool.status().warm == 2
    await host.open(1, memory_mb=2000)
    assert host.driver.started[-1].spec.limits.memory_bytes == 4096 * 2**20
    assert host.pool.status().warm == 1
    assert await host.refused(2, memory_mb=4096) == "full"
    assert host.pool.status().warm == 1, "no warm one ends in vain"


async def test_closing_ends_everything_and_takes_nothing_new() -> None:
    host = _Host()
    await host.open(1)
    async with host.pool.tended():
        await asyncio.sleep(0.05)
        assert host.pool.status().warm == 1
    assert all(each.ends == 1 for each in host.driver.started)
    assert await host.refused(2) == "full"
    assert host.find(1) == "lost"


def test_places_count_users_number_and_memory() -> None:
    places = Places(range(10, 12), containers_max=5, memory_mb=300)
    first, second = places.take(100), places.take(100)
    assert first is not None
    assert second is not None
    assert places.take(100) is None, "no user is left"
    places.give_back(first)
    assert places.take(201) is None
    again = places.take(200)
    assert again is not None
    assert again.uid == first.uid
    assert memory_mb_for_containers(4096) == 3072
    assert memory_mb_for_containers(65536) == 65536 - 8192
    assert memory_mb_for_containers() > 0


async def test_lines_can_be_read_from_the_first_on_by_several() -> None:
    call = Call("c")

    async def read() -> bytes:
        return b"".join([line async for line in call.read()])

    async with asyncio.TaskGroup() as tasks:
        early = tasks.create_task(read())
        for text in "ab":
            call.add(Output("stdout", text))
            await asyncio.sleep(0)
        late = tasks.create_task(read())
        await asyncio.sleep(0)
        call.end()
    assert early.result() == late.result()
    assert early.result().count(b"\n") == 2


def test_kept_lines_are_bounded_and_the_oldest_go() -> None:
    kept, calls = KeptLines(250), [Call(str(number)) for number in range(3)]
    for call in calls:
        call.add(Output("stdout", "x" * 60))
        call.end()
        assert 100 < call.size < 125
        kept.keep(call)
    assert [call.is_forgotten for call in calls] == [True, False, False]
    kept.drop(calls[1])
    kept.drop(calls[1])
    again = Call("again")
    again.add(Output("stdout", "x" * 60))
    kept.keep(again)
    assert [call.is_forgotten for call in [*calls, again]] == [True, True, False, False]


def test_changed_files_are_new_or_of_another_size_or_time() -> None:
    before = [FileEntry("a", 1, 1), FileEntry("b", 1, 1), FileEntry("c", 1, 1)]
    after = [FileEntry("a", 1, 1), FileEntry("b", 2, 1), FileEntry("d", 1, 1)]
    assert [entry.path for entry in changed_files(before, after)] == ["b", "d"]


@pytest.mark.parametrize(
    "wrong",
    [{"memory_tiers_mb": (256, 128)}, {"uids": 3, "containers_max": 4}, {"exec_seconds": 301.0}],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must ascend|less than|greater than"):
        SandboxSettings(**wrong)  # type: ignore[arg-type]
