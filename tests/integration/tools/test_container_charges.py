"""What containers cost: charged once whatever happens, counted in limits, and stopped by them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import date
from pathlib import Path

import pytest
from tests.integration.cells.container_rooms import (
    ContainerRooms,
    container_rooms,
    tools_settings,
)
from tests.integration.cells.imitated_sandbox import ImitatedSandbox, Scripted

from penstock.admission import AdmissionSettings, LimitBook
from penstock.errors import BudgetSpent
from penstock.metering import container_spend
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.turns import container_tending

USD = 10**9
AGO = """
    update containers set created_at = now() - make_interval(secs => %s), charged_until =
        now() - make_interval(secs => %s), last_active_at = now()
"""


@pytest.fixture
def host() -> Iterator[ImitatedSandbox]:
    with ImitatedSandbox() as running:
        yield running


@pytest.fixture
async def rooms(dsn: str, tmp_path: Path, host: ImitatedSandbox) -> AsyncIterator[ContainerRooms]:
    tools = tools_settings(tmp_path, host, container_usd_per_gb_minute="0.6")
    async with container_rooms(dsn, tmp_path, tools) as opened:
        yield opened


async def set_limit(rooms: ContainerRooms, amount: int) -> None:
    limit = Limit(0, rooms.account, Scope.ACCOUNT, "", Measure.NANOUSD, Period.DAY, amount)
    await LimitBook(rooms.store, AdmissionSettings()).create(limit)


async def charged(rooms: ContainerRooms) -> int:
    sql = "select coalesce(sum(charge_nanousd), 0)::bigint from container_usage"
    return int(await rooms.value(sql))


async def counted(rooms: ContainerRooms) -> int:
    return int(await rooms.value("select coalesce(sum(amount), 0)::bigint from limit_spend"))


async def test_time_and_memory_are_charged_once_and_counted_in_limits(
    rooms: ContainerRooms, host: ImitatedSandbox
) -> None:
    await set_limit(rooms, 100 * USD)
    container = await rooms.create(memory_mb=4096)
    host.script["work"] = Scripted(seconds=0.1)
    await rooms.run(container, "work")
    await rooms.execute(AGO, 120, 120)
    assert await rooms.tending.charge() == 1
    # Two minutes of 4 GB at 0.6 USD; a test that takes long adds some milliseconds.
    assert 4.8 * USD <= await charged(rooms) <= 4.9 * USD
    assert await counted(rooms) == await charged(rooms)
    assert await rooms.value("select exec_milliseconds from container_usage") == 100
    assert await rooms.tending.charge() == 0
    [used] = await rooms.upkeep.usage(*await days(rooms))
    assert (used.account, used.containers) == (rooms.account, 1)
    assert used.charge_nanousd == await charged(rooms)


async def days(rooms: ContainerRooms) -> tuple[date, date]:
    today = await rooms.value("select (now() at time zone 'UTC')::date")
    return today, await rooms.value("select (now() at time zone 'UTC')::date + 1")


async def test_the_rest_is_charged_at_the_end_and_nothing_after_it(rooms: ContainerRooms) -> None:
    container = await rooms.create()
    await rooms.execute(AGO, 60, 30)
    assert await rooms.tending.charge() == 0
    await rooms.book.delete(rooms.account, container.id)
    assert await rooms.tending.charge() == 1
    assert 0.3 * USD <= await charged(rooms) <= 0.33 * USD
    await asyncio.sleep(0.2)
    assert await rooms.tending.charge() == 0


async def test_time_after_an_end_that_nobody_noticed_is_not_charged(rooms: ContainerRooms) -> None:
    await rooms.create(idle_minutes=5)
    old = "update containers set created_at = now() - interval '1 hour', charged_until ="
    old += " now() - interval '1 hour', last_active_at = now() - interval '1 hour', busy_until ="
    await rooms.execute(f"{old} now() - interval '1 hour'")
    await rooms.tending.charge()
    assert await charged(rooms) == 3 * USD
    await rooms.upkeep.end_old()
    await rooms.tending.charge()
    assert await charged(rooms) == 3 * USD


async def test_many_charges_add_up_to_one(rooms: ContainerRooms) -> None:
    await rooms.create()
    await rooms.execute(AGO, 600, 600)
    for _ in range(5):
        await asyncio.gather(*(rooms.tending.charge() for _ in range(4)))
        await rooms.execute("update containers set charged_until = charged_until")
    total = await rooms.value(
        "select (extract(epoch from charged_until - created_at) * 1000)::bigint from containers"
    )
    assert await charged(rooms) == total * 600_000_000 // 60_000


async def test_killed_in_the_middle_charges_nothing(
    rooms: ContainerRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_limit(rooms, 100 * USD)
    await rooms.create()
    await rooms.execute(AGO, 60, 60)

    async def die(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(container_tending, "count_container_spend", die)
    with pytest.raises(asyncio.CancelledError):
        await rooms.tending.charge()
    assert await charged(rooms) == 0
    monkeypatch.setattr(
        container_tending, "count_container_spend", container_spend.count_container_spend
    )
    await rooms.tending.charge()
    assert await charged(rooms) == await counted(rooms) >= 0.6 * USD


async def test_an_account_whose_money_is_spent_gets_no_container_and_runs_no_code(
    rooms: ContainerRooms,
) -> None:
    container = await rooms.create()
    await set_limit(rooms, USD)
    await rooms.execute(AGO, 60, 60)
    await rooms.tending.charge()
    await rooms.run(container, "1")
    await rooms.execute(AGO, 180, 180)
    await rooms.tending.charge()
    with pytest.raises(BudgetSpent, match=r"1\.00 USD per day"):
        await rooms.create()
    with pytest.raises(BudgetSpent):
        await rooms.run(container, "1")


async def test_a_limit_that_is_set_later_counts_what_containers_have_cost(
    rooms: ContainerRooms,
) -> None:
    await rooms.create()
    await rooms.execute(AGO, 120, 120)
    await rooms.tending.charge()
    await set_limit(rooms, USD)
    with pytest.raises(BudgetSpent):
        await rooms.create()
