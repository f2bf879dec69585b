"""A keeper in its engine's own pod drains at SIGTERM, and stays until the engine has ended."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from tests.integration.cells.gateway_cell import (
    CHAT,
    Cell,
    CellFactory,
    chat_body,
    events_of,
    new_body,
)
from tests.integration.cells.gateway_process import eventually
from tests.integration.fleet.beside_engine import KeeperBesideEngine, generation_at, listed, rows_at

from penstock.testing import ScriptedEngine

_DRAINS = {"FLEET_DRAIN_AT_STOP": "true"}
_THREE_SECONDS = {"tokens": 30, "interval": 0.1}


@pytest.fixture
def cell(cells: CellFactory) -> Iterator[Cell]:
    """A gateway with another replica of the model, which takes what the drained one must not."""
    with cells.open() as opened:
        opened.set_up(CHAT)
        yield opened


@pytest.fixture
def engine(cell: Cell) -> ScriptedEngine:
    """An engine that others have made."""
    return cell.add_engine()


@contextmanager
def stream_at(cell: Cell, engine: ScriptedEngine) -> Iterator[httpx.Response]:
    """A stream of three seconds through the gateway, at this engine."""
    cell.wait_for_replicas(CHAT, 2)
    for _ in range(50):
        body = {**new_body(script=_THREE_SECONDS), "stream": True}
        url, headers = f"{cell.gateway.url}/v1/chat/completions", cell.authorization()
        with cell.client.stream("POST", url, json=body, headers=headers) as answer:
            assert answer.status_code == 200
            if engine.state().running:
                yield answer
                return
    raise AssertionError("no request reached the engine")


def rest_of(answer: httpx.Response) -> list[str]:
    return events_of("".join(answer.iter_text()))


def test_sigterm_drains_at_once_and_the_keeper_leaves_after_its_engine(
    cell: Cell, engine: ScriptedEngine, tmp_path: Path
) -> None:
    with KeeperBesideEngine(cell, engine.url, tmp_path, **_DRAINS) as keeper:
        replica = listed(cell, engine.url, "ready")
        with stream_at(cell, engine) as answer:
            keeper.terminate()
            assert listed(cell, engine.url, "draining", 1.0) == replica
            cell.wait_for_replicas(CHAT, 1)
            before = engine.state().requests
            for _ in range(10):
                assert cell.chat(new_body()).status_code == 200
            assert engine.state().requests == before
            assert rest_of(answer)[-1] == "[DONE]"
        # Longer than gateways take to read the roster: only the engine's end is waited for.
        time.sleep(1.5)
        assert rows_at(cell, engine.url) == [(replica, "draining")]
        assert not keeper.has_ended
        engine.terminate()
        assert listed(cell, engine.url, "gone", 5.0) == replica
        assert keeper.wait() == 0


def test_flex_work_that_runs_does_not_delay_the_drain(cells: CellFactory, tmp_path: Path) -> None:
    with ExitStack() as opened:
        cell = opened.enter_context(cells.open())
        # No replica of another host: jobs are in a folder of this one.
        cell.set_up()
        engine = cell.add_engine()
        keeper = KeeperBesideEngine(cell, engine.url, tmp_path, **_DRAINS)
        opened.enter_context(keeper)
        listed(cell, engine.url, "ready")
        ask = cell.post(
            "/v1/chat/completions",
            chat_body(script=_THREE_SECONDS),
            headers={"prefer": "respond-async"},
        )
        job = ask.json()["id"]
        eventually(lambda: engine.state().running == 1)
        keeper.terminate()
        listed(cell, engine.url, "draining", 1.0)
        assert engine.state().running == 1
        eventually(lambda: engine.state().finished == 1)
        engine.terminate()
        assert keeper.wait() == 0
        assert cell.get(f"/v1/jobs/{job}").json()["state"] == "succeeded"


def test_a_second_sigterm_waits_no_longer_and_cuts_nothing(
    cell: Cell, engine: ScriptedEngine, tmp_path: Path
) -> None:
    with KeeperBesideEngine(cell, engine.url, tmp_path, **_DRAINS) as keeper:
        listed(cell, engine.url, "ready")
        with stream_at(cell, engine) as answer:
            keeper.terminate()
            listed(cell, engine.url, "draining", 1.0)
            keeper.terminate()
            listed(cell, engine.url, "gone", 2.0)
            assert keeper.wait(5.0) == 0
            assert engine.state().running == 1
            assert rest_of(answer)[-1] == "[DONE]"


def test_an_engine_that_stays_is_listed_again_by_the_next_keeper_of_its_pod(
    cell: Cell, engine: ScriptedEngine, tmp_path: Path
) -> None:
    # Only the keeper's container is replaced: nobody has told the engine to end.
    settings = {**_DRAINS, "FLEET_STOP_GRACE_SECONDS": "1.0"}
    with KeeperBesideEngine(cell, engine.url, tmp_path, **settings) as keeper:
        first = listed(cell, engine.url, "ready")
        keeper.terminate()
        assert keeper.wait() == 0
        assert rows_at(cell, engine.url) == [(first, "gone")]
    with KeeperBesideEngine(cell, engine.url, tmp_path, **settings):
        assert listed(cell, engine.url, "ready") != first


def test_a_restarted_container_keeps_the_id_and_a_new_pod_has_another(
    cell: Cell, engine: ScriptedEngine, tmp_path: Path
) -> None:
    with KeeperBesideEngine(cell, engine.url, tmp_path / "one", **_DRAINS) as keeper:
        first = listed(cell, engine.url, "ready")
        keeper.kill()
    with KeeperBesideEngine(cell, engine.url, tmp_path / "one", **_DRAINS):
        eventually(lambda: generation_at(cell, engine.url) == 2)
        assert rows_at(cell, engine.url) == [(first, "ready")]
    with KeeperBesideEngine(cell, engine.url, tmp_path / "two", **_DRAINS):
        eventually(lambda: len(rows_at(cell, engine.url)) == 2)


def test_without_the_setting_the_replica_outlives_its_keeper(
    cell: Cell, engine: ScriptedEngine, tmp_path: Path
) -> None:
    with KeeperBesideEngine(cell, engine.url, tmp_path) as keeper:
        replica = listed(cell, engine.url, "ready")
        keeper.terminate()
        assert keeper.wait() == 0
    assert rows_at(cell, engine.url) == [(replica, "ready")]
    assert cell.chat(chat_body()).status_code == 200
