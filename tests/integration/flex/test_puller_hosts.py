"""A folder of objects is one host's: a keeper on another host does not pull what it cannot read."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.integration.cells.flex_keeper import MODEL, FlexCell, short_folder
from tests.integration.cells.signals_worker import eventually

from penstock.app import keeper_parts
from penstock.clock import SystemClock
from penstock.fleet.roster import RosterTable
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store


async def test_keeper_of_a_second_host_wants_a_bucket(
    store: Store, dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with short_folder() as signals:
        cell = FlexCell(store, dsn, tmp_path, signals)
        await cell.set_up()
        config = cell.config([])
        fleet = msgspec.structs.replace(config.fleet, host="second")
        config = msgspec.structs.replace(config, fleet=fleet)
        clock = SystemClock()
        kept = keeper_parts.keeper(config, store, clock)
        station = keeper_parts.station(config, store, cell.objects, kept, clock)
        other = Replica(
            ReplicaId("other"), MODEL, "http://127.0.0.1:9", ReplicaState.READY, "m", host="first"
        )
        await RosterTable(store).enroll(other, keeper="other")
        station.take_name("second")
        async with asyncio.TaskGroup() as group:
            group.create_task(station.run())
            await eventually(lambda: "puller does not start" in caplog.text)
            assert station.puller is None
            station.stop()
