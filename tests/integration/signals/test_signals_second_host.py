"""A second host without a transport between hosts is told in log, `/readyz?verbose` and doctor."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.gateway_cell import CHAT, SERVED, Cell, CellFactory
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT, eventually, fetch

from penstock.clock import new_id
from penstock.fleet.roster import RosterTable
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState

PENSTOCK = (sys.executable, "-m", "penstock")


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open() as cell:
        cell.set_up(CHAT)
        yield cell


@pytest.fixture(scope="module")
def elsewhere(cell: Cell) -> Replica:
    """A replica that a keeper on another host has written into the roster."""
    replica = Replica(
        id=ReplicaId(new_id()),
        model=ModelId(CHAT),
        url="http://127.0.0.1:9",
        state=ReplicaState.STARTING,
        served_name=SERVED,
        host="elsewhere",
    )
    cell.run(lambda store: RosterTable(store).enroll(replica, keeper="other"))
    return replica


def readyz(cell: Cell, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fetch(cell.gateway.port, f"/readyz{query}")[1])
    return found


def lines(text: str, action: str) -> list[str]:
    return [line for line in text.splitlines() if f'"{action}"' in line]


@pytest.mark.usefixtures("elsewhere")
def test_a_keeper_logs_it(cell: Cell, tmp_path: Path) -> None:
    log = tmp_path / "keeper.log"
    settings = {
        "PENSTOCK_STORE_DSN": cell.dsn,
        "PENSTOCK_FLEET_STATE_FOLDER": str(tmp_path / "fleet"),
        "PENSTOCK_FLEET_METRICS_PORT": "0",
        "PENSTOCK_FLEET_ROSTER_POLL_SECONDS": "0.2",
    }
    with log.open("wb") as file:
        keeper = subprocess.Popen(
            [*PENSTOCK, "keeper", "--parent-pid", str(os.getpid())],
            env={**CHILD_ENVIRONMENT, **settings},
            cwd=tmp_path,
            stdout=file,
            stderr=file,
        )
    try:
        eventually(lambda: bool(lines(log.read_text(), "hosts_unheard")), 40)
        time.sleep(2)
        assert len(lines(log.read_text(), "hosts_unheard")) == 1
    finally:
        keeper.terminate()
        keeper.wait(30)


@pytest.mark.usefixtures("elsewhere")
def test_the_doctor_says_it(cell: Cell, tmp_path: Path) -> None:
    done = subprocess.run(
        [*PENSTOCK, "doctor", "--json"],
        env={**CHILD_ENVIRONMENT, "PENSTOCK_STORE_DSN": cell.dsn},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=50,
    )
    (check,) = [each for each in json.loads(done.stdout) if each["name"] == "signals"]
    assert check["verdict"] == "warn"
    assert 'signals.transport is "local"' in check["finding"]
    assert "nats" in check["advice"]


def test_a_gateway_says_it_until_the_host_is_gone(cell: Cell, elsewhere: Replica) -> None:
    eventually(lambda: bool(readyz(cell, "?verbose")["warnings"]))
    assert readyz(cell)["status"] == "ready"
    assert "warnings" not in readyz(cell)
    (warning,) = readyz(cell, "?verbose")["warnings"]
    assert 'signals.transport is "local"' in warning
    eventually(lambda: bool(lines(cell.gateway.log_text(), "hosts_unheard")))
    cell.withdraw(elsewhere)
    eventually(lambda: readyz(cell, "?verbose")["warnings"] == [])
    eventually(lambda: bool(lines(cell.gateway.log_text(), "hosts_heard")))
    assert len(lines(cell.gateway.log_text(), "hosts_unheard")) == 1
