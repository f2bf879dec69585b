"""Figures of the whole cell stand on the page once, however many workers read them."""

from penstock.telemetry.collector import render
from penstock.telemetry.metrics import Gauges, Snapshot


def test_what_every_worker_reads_is_not_added_up() -> None:
    figures = {
        "penstock_flex_queued": {"model a": 7.0, "model b": 2.0},
        "penstock_webhook_tries_total": {"outcome delivered": 3.0},
        "penstock_webhook_oldest_seconds": {"": 1.5},
    }
    newer = {"penstock_webhook_tries_total": {"outcome delivered": 4.0}}
    snapshots = [Snapshot([], Gauges(cell=cell)) for cell in (figures, figures, newer, {})]
    page = render(snapshots, 1).decode().splitlines()
    assert 'penstock_flex_queued{model="a"} 7.0' in page
    assert 'penstock_flex_queued{model="b"} 2.0' in page
    assert 'penstock_webhook_tries_total{outcome="delivered"} 4.0' in page
    assert "penstock_webhook_oldest_seconds 1.5" in page
