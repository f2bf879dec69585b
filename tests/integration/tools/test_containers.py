"""Containers in the rooms' own words: where they start, how they end, and what of them is kept."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.cells.container_rooms import (
    ContainerRooms,
    container_rooms,
    tools_settings,
)
from tests.integration.cells.imitated_sandbox import ImitatedSandbox, Scripted
from tests.integration.cells.kept_bytes import find_in_database, find_in_folder

from penstock.errors import (
    BodyTooLarge,
    ContainerBusy,
    ContainerExpired,
    Forbidden,
    InvalidRequest,
    NotFound,
    QuotaSpent,
    SandboxLost,
    SandboxUnavailable,
    StoreUnavailable,
)
from penstock.policy import AccountBook
from penstock.records.account import AccountId
from penstock.tools import AccountContainer, ContainerId, CopiedFiles
from penstock.wire.resources.sandbox import CallEnded, ContainerLost, Output

MARKER = b"a-secret-of-the-caller"
OLDER = """
    update containers set last_active_at = now() - interval '1 day',
        busy_until = now() - interval '1 day'
"""


@pytest.fixture
def host() -> Iterator[ImitatedSandbox]:
    with ImitatedSandbox() as running:
        yield running


@pytest.fixture
async def rooms(dsn: str, tmp_path: Path, host: ImitatedSandbox) -> AsyncIterator[ContainerRooms]:
    tools = tools_settings(tmp_path, host, artifact_bytes_max=10_000, containers_per_account_max=3)
    async with container_rooms(dsn, tmp_path, tools) as opened:
        yield opened


def on_host(container: AccountContainer) -> str:
    return container.id.replace("-", "")


async def test_container_is_started_with_what_was_asked_for(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    made = await rooms.create(memory_mb=4096, idle_minutes=5)
    asked = host.asked_for[on_host(made)]
    assert (asked.memory_mb, asked.idle_seconds, asked.life_seconds) == (4096, 300, 7200)
    assert (made.host, made.boot, made.driver) == (host.url, host.boot, "imitated")
    assert made.status == "running"
    small = await rooms.create()
    assert small.memory_mb == 1024
    assert await rooms.book.usable(rooms.account, small.id) == small
    with pytest.raises(InvalidRequest, match="1g, 4g"):
        await rooms.create(memory_mb=2048)
    with pytest.raises(InvalidRequest, match="at most 20"):
        await rooms.create(idle_minutes=21)


async def test_lines_come_as_they_are_written_and_files_are_copied(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    container = await rooms.create()
    host.script["slow"] = Scripted([Output("stdout", "now")], {"a/b.txt": MARKER}, seconds=0.5)
    began = time.monotonic()
    times = [
        (line, time.monotonic() - began)
        async for line in rooms.calls.run_code(container, "one", "slow", 7.0)
    ]
    assert times[0][0] == Output("stdout", "now")
    assert times[0][1] < 0.3
    copied = times[-2][0]
    assert isinstance(copied, CopiedFiles)
    assert isinstance(times[-1][0], CallEnded)
    [file] = copied.files
    assert (file.path, file.source, file.bytes) == ("a/b.txt", "assistant", len(MARKER))
    assert b"".join([piece async for piece in rooms.book.files.content(file)]) == MARKER
    assert host.calls[0].seconds == 7.0
    assert await rooms.value("select exec_ms from containers") == 500


async def test_a_changed_file_keeps_its_id_and_leaves_no_old_object(
    rooms: ContainerRooms, host: ImitatedSandbox, tmp_path: Path
) -> None:
    container = await rooms.create()
    host.script["1"] = Scripted(files={"plot.png": b"first"})
    host.script["2"] = Scripted(files={"plot.png": b"second!"})
    [one] = (await rooms.copied(container, "1")).files
    [two] = (await rooms.copied(container, "2")).files
    assert one.id == two.id
    assert two.bytes == 7
    assert len([path for path in (tmp_path / "objects").rglob("*") if path.is_file()]) == 1


async def test_what_does_not_fit_or_has_a_strange_path_is_left_out(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    container = await rooms.create()
    files = {"big": b"x" * 10_001, "../../etc/passwd": b"x", "/abs": b"x", "ok": b"x", "a\0b": b""}
    host.script["write"] = Scripted(files=files)
    copied = await rooms.copied(container, "write")
    assert [file.path for file in copied.files] == ["ok"]
    assert copied.left_out == ["big"]
    with pytest.raises(BodyTooLarge):
        await rooms.book.put_file(container, "more", b"y" * 10_000)
    assert "more" not in host.containers[on_host(container)]


async def test_the_account_s_quota_holds(dsn: str, tmp_path: Path, host: ImitatedSandbox) -> None:
    tools = tools_settings(tmp_path, host, container_bytes_per_account_max=100)
    async with container_rooms(dsn, tmp_path, tools) as rooms:
        one, other = await rooms.create(), await rooms.create()
        await rooms.book.put_file(one, "a", b"x" * 60)
        with pytest.raises(QuotaSpent):
            await rooms.book.put_file(other, "b", b"x" * 60)
        await rooms.book.put_file(one, "a", b"x" * 90)


async def test_no_more_containers_than_an_account_may_have(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    made = await asyncio.gather(*(rooms.create() for _ in range(8)), return_exceptions=True)
    refused = [each for each in made if isinstance(each, BaseException)]
    assert len(refused) == 5
    assert all(isinstance(each, QuotaSpent) for each in refused)
    assert len(host.containers) == 3


@pytest.mark.parametrize("way", ["idle", "too old", "boot", "host forgot it"])
async def test_a_container_that_has_ended_is_never_taken_for_one_that_runs(
    rooms: ContainerRooms, host: ImitatedSandbox, way: str
) -> None:
    container = await rooms.create()
    await rooms.book.put_file(container, "kept.txt", MARKER)
    if way == "idle":
        await rooms.execute(OLDER)
    elif way == "too old":
        await rooms.execute("update containers set ends_at = now()")
    elif way == "boot":
        host.reboot()
        await asyncio.sleep(1.1)
    else:
        host.containers.clear()
        with pytest.raises(ContainerExpired):
            await rooms.run(container, "1")
    assert await rooms.book.usable(rooms.account, container.id) is None
    with pytest.raises(ContainerExpired):
        await rooms.book.find(rooms.account, container.id)
    if way != "boot":
        with pytest.raises(ContainerExpired):
            await rooms.run(container, "1")
    await rooms.upkeep.end_old()
    assert await rooms.value("select state from containers") == "expired"
    known = await rooms.book.known(rooms.account, container.id)
    [file] = await rooms.book.files.page(known, 10, None, is_oldest_first=True)
    assert b"".join([piece async for piece in rooms.book.files.content(file)]) == MARKER


async def test_upkeep_notices_another_boot_by_itself(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    await rooms.create()
    assert await rooms.upkeep.end_old() == 0
    host.reboot()
    await asyncio.sleep(1.1)
    assert await rooms.upkeep.end_old() == 1
    assert await rooms.upkeep.end_old() == 0


async def test_other_accounts_find_nothing(
    rooms: ContainerRooms, dsn: str, tmp_path: Path, host: ImitatedSandbox
) -> None:
    container = await rooms.create()
    other = (await AccountBook(rooms.store).create("other")).id
    assert await rooms.book.usable(other, container.id) is None
    for act in (rooms.book.find, rooms.book.known, rooms.book.delete):
        with pytest.raises(NotFound) as refused:
            await act(other, container.id)
        assert type(refused.value) is NotFound
    assert on_host(container) in host.containers


async def test_a_shared_kernel_is_for_one_account_unless_allowed(
    rooms: ContainerRooms, dsn: str, tmp_path: Path, host: ImitatedSandbox
) -> None:
    await AccountBook(rooms.store).create("second")
    with pytest.raises(Forbidden, match=r"tools\.allow_shared_kernel"):
        await rooms.create()
    tools = tools_settings(tmp_path, host, allow_shared_kernel=True)
    async with container_rooms(dsn, tmp_path, tools, rooms.account) as allowed:
        await allowed.create()
    with ImitatedSandbox(isolation="gvisor") as apart:
        tools = tools_settings(tmp_path, host, apart)
        async with container_rooms(dsn, tmp_path, tools, rooms.account) as mixed:
            assert (await mixed.create()).host == apart.url


async def test_the_host_with_most_warm_kernels_is_taken_and_a_dead_one_left_out(
    dsn: str, tmp_path: Path, host: ImitatedSandbox
) -> None:
    with ImitatedSandbox(warm=5) as warm, ImitatedSandbox(warm=9) as full:
        full.offered["containers_max"] = 0
        dead = ImitatedSandbox(warm=50)
        dead.stop_listening()
        tools = tools_settings(tmp_path, dead, host, full, warm)
        async with container_rooms(dsn, tmp_path, tools) as rooms:
            assert (await rooms.create()).host == warm.url
            warm.stop()
            assert (await rooms.create()).host == host.url


@pytest.mark.parametrize("settings", [{}, {"containers_max": 0}])
async def test_without_a_host_that_takes_it_there_is_no_container(
    dsn: str, tmp_path: Path, settings: dict[str, int]
) -> None:
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(ImitatedSandbox(**settings))] if settings else []
        tools = tools_settings(tmp_path, *hosts)
        async with container_rooms(dsn, tmp_path, tools) as rooms:
            with pytest.raises(SandboxUnavailable):
                await rooms.create()
            assert await rooms.value("select count(*) from containers") == 0


async def test_a_wrong_token_is_no_sandbox(dsn: str, tmp_path: Path, host: ImitatedSandbox) -> None:
    tools = tools_settings(tmp_path, host)
    (tmp_path / "sandbox.token").write_text("another")
    async with container_rooms(dsn, tmp_path, tools) as rooms:
        with pytest.raises(SandboxUnavailable):
            await rooms.create()


async def test_a_host_that_dies_in_a_call_is_noticed_at_once(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    container = await rooms.create()
    host.script["die"] = Scripted([Output("stdout", "begun")], dies=True)
    began = time.monotonic()
    lines = rooms.calls.run_code(container, "x", "die", 60.0)
    assert await anext(lines) == Output("stdout", "begun")
    with pytest.raises(SandboxLost):
        await anext(lines)
    assert time.monotonic() - began < 2
    host.script["cut"] = Scripted(has_last_line=False)
    with pytest.raises(SandboxLost):
        await rooms.run(container, "cut")


async def test_a_call_that_nobody_reads_is_interrupted(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    container = await rooms.create()
    host.script["long"] = Scripted([Output("stdout", "begun")], seconds=30)
    began = time.monotonic()
    async with contextlib.aclosing(rooms.calls.run_code(container, "x", "long")) as lines:
        assert await anext(lines) == Output("stdout", "begun")
        with pytest.raises(ContainerBusy):
            await rooms.run(container, "other", "y")
        assert host.interrupted == []
    assert host.interrupted == [on_host(container)]
    assert time.monotonic() - began < 5


async def test_a_container_that_its_code_killed_has_ended(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    container = await rooms.create()
    lost = ContainerLost("The code used too much memory.")
    host.script["bomb"] = Scripted([lost], has_last_line=False)
    assert await rooms.run(container, "bomb") == [lost]
    assert await rooms.book.usable(rooms.account, container.id) is None


async def test_nothing_is_readable_at_rest(
    rooms: ContainerRooms, host: ImitatedSandbox, dsn: str, tmp_path: Path
) -> None:
    container = await rooms.create()
    host.script["make"] = Scripted(files={"made.txt": b"made " + MARKER})
    await rooms.run(container, "make")
    await rooms.book.put_file(container, "given.txt", b"given " + MARKER)
    assert await rooms.value("select count(*) from container_files") == 2
    assert find_in_database(dsn, MARKER) == []
    assert find_in_folder(tmp_path, MARKER, without="cell.key") == []


async def test_deleting_and_forgetting_leave_no_file(
    rooms: ContainerRooms, host: ImitatedSandbox, tmp_path: Path
) -> None:
    first, second = await rooms.create(), await rooms.create()
    for container in (first, second):
        await rooms.book.put_file(container, "f", MARKER)
    await rooms.book.delete(rooms.account, first.id)
    assert list(host.containers) == [on_host(second)]
    with pytest.raises(NotFound) as refused:
        await rooms.book.known(rooms.account, first.id)
    assert not isinstance(refused.value, ContainerExpired)
    await rooms.upkeep.forget(rooms.account)
    assert not host.containers
    assert await rooms.value("select count(*) from container_files") == 0
    assert await rooms.value("select count(*) from containers where name <> ''") == 0
    assert not [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]


async def test_files_of_a_deleted_container_go_though_its_gateway_dies(
    rooms: ContainerRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = await rooms.create()
    file = await rooms.book.put_file(container, "a.txt", b"given " + MARKER)

    async def dies(_: ContainerId) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(rooms.book.files, "delete_all_of", dies)
        with pytest.raises(StoreUnavailable):
            await rooms.book.delete(rooms.account, container.id)
    assert await rooms.upkeep.drop_old() == 1
    assert await rooms.value("select count(*) from container_files") == 0
    with pytest.raises(NotFound):
        await rooms.objects.get(file.object)


async def test_old_files_and_rows_go_when_their_time_is_over(
    rooms: ContainerRooms, tmp_path: Path
) -> None:
    container = await rooms.create()
    file = await rooms.book.put_file(container, "f", MARKER)
    await rooms.execute(OLDER)
    await rooms.execute(
        "update containers set created_at = now() - interval '2 days',"
        " ends_at = now() - interval '25 hours', charged_until = now()"
    )
    await rooms.upkeep.end_old()
    with pytest.raises(NotFound):
        await rooms.book.files.find(rooms.account, container.id, file.id)
    assert await rooms.upkeep.drop_old() == 2
    assert await rooms.value("select count(*) from containers") == 0
    assert not [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]


async def test_any_process_finds_a_container_by_one_lookup(
    rooms: ContainerRooms, dsn: str, tmp_path: Path, host: ImitatedSandbox
) -> None:
    container = await rooms.create()
    host.script["1"] = Scripted([Output("stdout", "1")])
    async with container_rooms(
        dsn, tmp_path, tools_settings(tmp_path, host), rooms.account
    ) as other:
        found = await other.book.usable(AccountId(rooms.account), ContainerId(container.id))
        assert found is not None
        assert (await other.run(found, "1"))[0] == Output("stdout", "1")
