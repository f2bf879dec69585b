"""An account's spending, where prices rise: a real Prometheus beside two real gateways.

An hour is two seconds and a week three, so that there are three usual hours after eleven.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import PLAIN, Cell, CellFactory, chat_body, entry_of
from tests.integration.cells.gateway_process import GatewayProcess, eventually
from tests.integration.cells.prometheus_process import (
    PrometheusProcess,
    needs_prometheus,
    scaled_query,
)
from tests.integration.cells.runtime_dsn import runtime_dsn

pytestmark = [needs_prometheus, pytest.mark.timeout(120)]

_HOUR_SECONDS = 2.0
_FASTER = round(3600 / _HOUR_SECONDS)
_WEEKS_FASTER = 7 * 86_400 // 3
# Dollars for a million tokens: some twenty requests a second are above ten dollars an hour.
_PRICE_USD = 30_000
# Doubled exactly, and nothing else, an hour is at the threshold and not above it.
_DEARER = 3
# Its window is an hour; the machine may be busy.
_FIRES_SECONDS = 5 * _HOUR_SECONDS


def test_prices_that_more_than_double(cells: CellFactory, tmp_path: Path) -> None:
    """The catalogue's file has new prices, and gateways start with it one after the other."""
    with cells.open({"catalogue.folder": str(_catalogue(tmp_path / "before", _PRICE_USD))}) as cell:
        cell.set_up(PLAIN)
        with _gateway_with_new_prices(cell, tmp_path) as dearer:
            targets = {
                "penstock-gateway": cell.gateway.metrics_port,
                "penstock-keeper": dearer.metrics_port,
            }
            folder = tmp_path / "prometheus"
            folder.mkdir()
            prometheus = PrometheusProcess(
                folder, targets, faster=_FASTER, weeks_faster=_WEEKS_FASTER, scrape_ms=100
            )
            with prometheus, _Spending(cell) as spending:
                _is_usual(prometheus)
                _stays_silent(prometheus, 2 * _HOUR_SECONDS)
                spending.url = dearer.url
                fired = prometheus.wait_for("SpendSpike", _FIRES_SECONDS)
            assert fired["labels"] == {
                "alertname": "SpendSpike",
                "account": cell.account,
                "severity": "ticket",
            }
            assert spending.failed == []


class _Spending:
    """Sends the same request some twenty times a second, to one gateway or the other."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.url = cell.gateway.url
        self.failed: list[str] = []

    def __enter__(self) -> "_Spending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        body = chat_body(PLAIN, max_tokens=4)
        headers = {"authorization": f"Bearer {self._cell.key}"}
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            # After a pause of the machine it does not send what it has not sent meanwhile.
            due = max(due + 0.05, time.monotonic())
            answer = self._cell.client.post(
                f"{self.url}/v1/chat/completions", json=body, headers=headers
            )
            if answer.status_code != 200:
                self.failed.append(answer.text)


@contextmanager
def _gateway_with_new_prices(cell: Cell, folder: Path) -> Iterator[GatewayProcess]:
    own = folder / "second"
    own.mkdir()
    settings = {
        "store.dsn": runtime_dsn(cell.dsn),
        "store.cell_key_file": cell.key_file,
        "catalogue.folder": str(_catalogue(folder / "after", _PRICE_USD * _DEARER)),
        "metering.journal_folder": str(own / "journal"),
    }
    with GatewayProcess(own, settings) as gateway:
        ready = "penstock_ready_replicas"
        eventually(lambda: gateway.metric(ready, f'model="{PLAIN}"') == 1)
        yield gateway


def _catalogue(folder: Path, price_usd: int) -> Path:
    folder.mkdir()
    price = price_usd * 10**9
    text = re.sub(r"_nanousd_per_mtok = \d+", f"_nanousd_per_mtok = {price}", entry_of(PLAIN))
    (folder / "plain.toml").write_text(text)
    return folder


def _is_usual(prometheus: PrometheusProcess) -> None:
    """Wait for an hour of three weeks ago that was dear enough to be compared with."""
    expr = "penstock:spend_usd:increase1h offset 3w > 10"
    eventually(lambda: prometheus.query(scaled_query(expr, _FASTER, _WEEKS_FASTER)) != [], 40)


def _stays_silent(prometheus: PrometheusProcess, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert prometheus.firing() == {}
        time.sleep(0.1)
