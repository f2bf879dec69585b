"""The fleet's page: replicas that gateways leave out, and deployments that are not ready."""

import asyncio
import re
from pathlib import Path

from tests.integration.cells.control_process import control_process
from tests.integration.console.console_browser import Browser

from penstock.catalogue import CatalogueSettings, load_catalogue
from penstock.clock import new_id
from penstock.fleet.cell.deployments import Author, Deployments, resolve
from penstock.fleet.roster import RosterTable
from penstock.fleet.workers import Worker, WorkerTable, left_out_facts
from penstock.records.deployment import DeploymentSpec
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store, StoreSettings

MODEL = ModelId("@cf/moonshotai/kimi-k2.5")
WELL, DEAD = ReplicaId("r-well"), ReplicaId("r-dead")


async def _fill(dsn: str) -> None:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        for id in (WELL, DEAD):
            replica = Replica(
                id=id, model=MODEL, url="http://127.0.0.1:9", served_name="m",
                state=ReplicaState.READY, host="h",
            )  # fmt: skip
            await RosterTable(store).enroll(replica, keeper="k")
        for number in range(3):
            # Two of three gateway workers have found one of the replicas dead.
            reasons = {DEAD: "ConnectionRefusedError(111)"} if number else {}
            worker = Worker(new_id(), "gateway", "h", "1", dict(left_out_facts(reasons)))
            await WorkerTable(store).beat(worker)
        await WorkerTable(store).beat(Worker(new_id(), "keeper", "h", "1"))
        catalogue = load_catalogue(CatalogueSettings())
        wanted = [resolve("kimi", DeploymentSpec(model=MODEL), catalogue)]
        await Deployments(store).apply(wanted, {}, Author("test"))
    finally:
        await store.close()


def _row(page: str, of: str) -> str:
    """Return what a person reads in the first row of a table that names something."""
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)
    found = next(row for row in rows if of in row)
    return " ".join(re.sub(r"<[^>]*>", " ", found).split())


def test_what_gateways_leave_out_comes_first_with_the_reason(dsn: str, tmp_path: Path) -> None:
    asyncio.run(_fill(dsn))
    with control_process(dsn, tmp_path) as control, Browser(control) as browser:
        page = browser.page("/console/fleet")
    said = "left out by 2 of 3 gateway workers: ConnectionRefusedError(111)"
    assert said in _row(page, "replica-r-dead")
    assert "left out" not in _row(page, "replica-r-well")
    assert page.index("replica-r-dead") < page.index("replica-r-well")
    deployment = _row(page, ">kimi<")
    assert deployment.startswith("kimi kimi-k2.5")
    assert "0 of 1" in deployment
