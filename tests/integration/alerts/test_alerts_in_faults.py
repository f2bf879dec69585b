"""Alerts in seeded faults: a real Prometheus beside a real gateway and keeper, with time scaled.

Each alert is silent before its fault, fires in it, and ends after it. All the while well-cached
traffic runs, so that silence is not the silence of a cell that does nothing.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import psycopg
import pytest
from tests.integration.cells.gateway_cell import (
    CHAT,
    CHEAP,
    PAIR,
    PLAIN,
    Cell,
    CellFactory,
    new_body,
)
from tests.integration.cells.gateway_process import eventually, free_port
from tests.integration.cells.limited_accounts import set_limit
from tests.integration.cells.prometheus_process import PrometheusProcess, needs_prometheus
from tests.integration.cells.stored_cell import postgres_away
from tests.integration.contracts.contract_cell import REFRESH, apply_texts, contract
from tests.integration.fleet.beside_engine import KeeperBesideEngine

from penstock.clock import SystemClock
from penstock.records.limit import Measure, Period

pytestmark = [needs_prometheus, pytest.mark.timeout(240)]

# 30 minutes are 15 seconds, 2 minutes are 1.
_FASTER = 120
_FIRES_SECONDS = 20.0
_HOUR_SECONDS = 3600 / _FASTER
_SETTINGS = {
    **REFRESH,
    "admission.limits_refresh_seconds": 0.1,
    "metering.drain_seconds": 0.1,
    "metering.drain_retry_seconds_max": 0.2,
    "store.acquire_seconds": 0.3,
}
# Longer than what names a family, and of 10,000 tokens, of which caching is worth a warning.
_INSTRUCTIONS = "You answer briefly and cite the file. " * 20
_FILES = "def quicksort(items): return sorted(items) if items else []\n" * 700


class _Traffic:
    """Sends the same long instructions with another question, several times a second."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        # A date in the instructions, where the prompt was the same in every request before.
        self.is_dated = False
        self.failed: list[str] = []

    @contextmanager
    def flowing(self) -> Iterator["_Traffic"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.15):
            number += 1
            date = f"It is {SystemClock().now()}.\n" if self.is_dated else ""
            messages = [
                {"role": "system", "content": f"{_INSTRUCTIONS}{date}{_FILES}"},
                {"role": "user", "content": f"Question {number}?"},
            ]
            answer = self._cell.chat({"model": PLAIN, "messages": messages, "max_tokens": 4})
            if answer.status_code != 200:
                self.failed.append(answer.text)


class _Watched(msgspec.Struct):
    cell: Cell
    prometheus: PrometheusProcess
    traffic: _Traffic


@pytest.fixture(scope="module")
def watched(cells: CellFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Watched]:
    with cells.open(_SETTINGS) as cell:
        cell.set_up(PLAIN)
        # No keeper is scraped: what fails here is seen by gateways.
        port = cell.gateway.metrics_port
        targets = {"penstock-gateway": port, "penstock-keeper": port}
        folder = tmp_path_factory.mktemp("prometheus")
        with (
            PrometheusProcess(folder, targets, faster=_FASTER) as prometheus,
            _Traffic(cell).flowing() as traffic,
        ):
            yield _Watched(cell, prometheus, traffic)


@pytest.fixture(autouse=True)
def _silent_before(watched: _Watched) -> None:
    """Nothing fires before a fault."""
    _seen_by(watched.prometheus, "penstock:cached_share:ratio5m")
    time.sleep(2.0)
    assert watched.prometheus.firing() == {}


def test_quiet_hour(watched: _Watched) -> None:
    """Of all alerts none fires, not even for a moment, in an hour of ordinary traffic."""
    before = watched.cell.gateway.metric("penstock_requests_total")
    time.sleep(_HOUR_SECONDS)
    fired = f'max_over_time(ALERTS{{alertstate="firing"}}[{round(_HOUR_SECONDS)}s])'
    assert watched.prometheus.query(fired) == []
    # Prometheus did collect all the while, and evaluated every rule.
    (seen,) = watched.prometheus.query(
        f"sum(increase(penstock_requests_total[{round(_HOUR_SECONDS)}s]))"
    )
    assert float(seen["value"][1]) > 0.5 * _HOUR_SECONDS
    assert watched.cell.gateway.metric("penstock_requests_total") > before
    assert watched.prometheus.rule_troubles() == []


def test_killed_replicas_without_a_keeper(watched: _Watched) -> None:
    cell = watched.cell
    engines = [cell.add_engine() for _ in range(2)]
    replicas = [cell.enroll(engine.url, PAIR) for engine in engines]
    cell.wait_for_replicas(PAIR, 2)
    engines[0].kill()
    with _asking(cell, PAIR):
        fired = watched.prometheus.wait_for("ReplicaEjected", _FIRES_SECONDS)
        assert fired["labels"]["severity"] == "ticket"
        assert "NoReadyReplica" not in watched.prometheus.firing()
        # Nobody takes the second one off the roster, as when a host is lost with its keeper.
        engines[1].kill()
        watched.prometheus.wait_for("NoReadyReplica", _FIRES_SECONDS)
    for replica in replicas:
        cell.withdraw(replica)
    for name in ("ReplicaEjected", "NoReadyReplica"):
        watched.prometheus.wait_for_end(name, _FIRES_SECONDS)


def test_killed_replica_of_one(watched: _Watched, tmp_path: Path) -> None:
    cell, prometheus = watched.cell, watched.prometheus
    engine = cell.add_engine(port=free_port())
    settings = {
        "FLEET_HEALTH_INTERVAL_SECONDS": "0.1",
        "FLEET_UNHEALTHY_SECONDS": "0.5",
    }
    with KeeperBesideEngine(cell, engine.url, tmp_path, **settings) as keeper:
        cell.wait_for_replicas(CHAT, 1)
        _seen_by(prometheus, f'penstock_ready_replicas{{model="{CHAT}"}}')
        engine.kill()
        # Its keeper takes it off the roster and waits for it. Nobody asks for the model meanwhile.
        fired = prometheus.wait_for("NoReadyReplica", _FIRES_SECONDS)
        assert fired["labels"] == {
            "alertname": "NoReadyReplica",
            "model": CHAT,
            "severity": "page",
        }
        engine.start()
        prometheus.wait_for_end("NoReadyReplica", _FIRES_SECONDS)
        # In order: a replica that is listed as *starting* just then would fire for ever.
        keeper.terminate()
        keeper.wait()
    # Its host is taken away on purpose, and is not silent.
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("update hosts set is_cordoned = true")


def test_full_queue(watched: _Watched) -> None:
    cell = watched.cell
    cell.enroll(cell.add_engine(slots=4).url, CHEAP, slots_live=4)
    cell.wait_for_replicas(CHEAP, 1)
    body = new_body(CHEAP, {"stall_before_first": 0.5})
    with ThreadPoolExecutor(100) as pool:
        answers = [pool.submit(cell.chat, body) for _ in range(100)]
        fired = watched.prometheus.wait_for("RequestsWaiting", 30)
        assert fired["labels"]["model"] == CHEAP
        assert {answer.result().status_code for answer in answers} == {200}
    watched.prometheus.wait_for_end("RequestsWaiting", _FIRES_SECONDS)


def test_postgres_away(watched: _Watched) -> None:
    cell, prometheus = watched.cell, watched.prometheus
    key = {"authorization": f"Bearer {set_limit(cell, Measure.TOKENS, Period.MONTH, 500)}"}

    def ask() -> httpx.Response:
        return cell.post("/v1/chat/completions", new_body(PLAIN, max_tokens=10), headers=key)

    eventually(lambda: any(name.startswith("x-ratelimit") for name in ask().headers))
    with postgres_away(cell):
        fired = prometheus.wait_for("DrainFailing", _FIRES_SECONDS)
        # More than 2 % of the limit, which is a lease; the account goes on.
        assert {ask().status_code for _ in range(8)} == {200}
        prometheus.wait_for("BeyondLeases", _FIRES_SECONDS)
    assert fired["labels"]["severity"] == "page"
    for name in ("DrainFailing", "BeyondLeases"):
        prometheus.wait_for_end(name, _FIRES_SECONDS)


def test_contracts_that_do_not_fit_the_catalogue(watched: _Watched) -> None:
    cell = watched.cell
    wrong = contract("reviews", models='default = "no-such-model"')
    cell.run(lambda store: apply_texts(store, wrong))
    watched.prometheus.wait_for("ContractsRefused", _FIRES_SECONDS)
    cell.run(lambda store: apply_texts(store, contract("reviews")))
    watched.prometheus.wait_for_end("ContractsRefused", _FIRES_SECONDS)


def test_cache_broken_by_a_date_in_the_instructions(watched: _Watched) -> None:
    assert watched.traffic.failed == []
    (ratio,) = watched.prometheus.query("penstock:family_hit:ratio30m")
    assert float(ratio["value"][1]) > 0.9
    watched.traffic.is_dated = True
    fired = watched.prometheus.wait_for("HitRatioFell", 30)
    assert fired["labels"]["account"] == watched.cell.account
    assert fired["labels"]["family"] == ratio["metric"]["family"]
    # The same half hour, without dates.
    watched.traffic.is_dated = False
    watched.prometheus.wait_for_end("HitRatioFell", 30)


@contextmanager
def _asking(cell: Cell, model: str) -> Iterator[None]:
    """Requests one after another, however they end."""
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.02):
            cell.chat(new_body(model))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _seen_by(prometheus: PrometheusProcess, expr: str) -> None:
    eventually(lambda: prometheus.query(expr) != [], 10)
