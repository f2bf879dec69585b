"""Which hosts count as silent: those that should have a keeper, by the one that reported last."""

from typing import LiteralString

import pytest

from penstock.clock import new_id
from penstock.fleet.hosts import HostReports, read_silences
from penstock.fleet.roster import RosterTable
from penstock.records.host import HostReport
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store


@pytest.fixture
def reports(store: Store) -> HostReports:
    return HostReports(store)


async def test_host_of_deployments_counts_until_it_is_cordoned(
    store: Store, reports: HostReports
) -> None:
    await _report(reports, "keeper-1", "gpu-1", obeys="deployments")
    await _report(reports, "keeper-2", "gpu-2", obeys="deployments")
    await _silent_for(store, "keeper-1", 300)
    silences = await _silences(store)
    assert 300 <= silences["gpu-1"] < 360
    assert silences["gpu-2"] < 60
    await _change(store, "update hosts set is_cordoned = true where keeper = 'keeper-1'")
    assert set(await _silences(store)) == {"gpu-2"}


async def test_keeper_of_settings_counts_while_it_has_replicas(
    store: Store, reports: HostReports
) -> None:
    """A keeper in an engine's pod ends in order after its replica, and its row stays for a day."""
    await _report(reports, "pod-1", "pod-1")
    assert await _silences(store) == {}
    replica = Replica(
        id=ReplicaId(new_id()),
        model=ModelId("@cf/test/chat"),
        url="http://127.0.0.1:1",
        state=ReplicaState.READY,
        served_name="scripted",
        slots_live=1,
    )
    await RosterTable(store).enroll(replica, keeper="pod-1")
    assert set(await _silences(store)) == {"pod-1"}
    await _change(store, "update replicas set state = 'gone'")
    assert await _silences(store) == {}


async def test_new_keeper_of_a_host_takes_the_place_of_the_old_one(
    store: Store, reports: HostReports
) -> None:
    for keeper in ("old", "new"):
        await _report(reports, keeper, "gpu-1", obeys="deployments")
    await _silent_for(store, "old", 300)
    assert (await _silences(store))["gpu-1"] < 60


async def _report(reports: HostReports, keeper: str, name: str, obeys: str = "settings") -> None:
    await reports.report(keeper, HostReport(name=name, address="127.0.0.1", obeys=obeys))


async def _silences(store: Store) -> dict[str, float]:
    async with store.transaction() as transaction:
        return await read_silences(transaction)


async def _silent_for(store: Store, keeper: str, seconds: int) -> None:
    await _change(
        store,
        "update hosts set heartbeat_at = now() - make_interval(secs => %s) where keeper = %s",
        seconds,
        keeper,
    )


async def _change(store: Store, sql: LiteralString, *params: object) -> None:
    async with store.transaction() as transaction:
        assert await transaction.execute(sql, params) == 1
