"""A keeper's page has every metric that is declared, with its help and its values."""

import http.client
import re

from penstock.telemetry.keeper_metrics import (
    KEEPER_METRICS,
    EngineRow,
    GpuUse,
    KeeperSnapshot,
    render_keeper,
)
from penstock.telemetry.metrics import METRICS
from penstock.telemetry.page_server import PageServer

_SNAPSHOT = KeeperSnapshot(
    engines=(EngineRow("m", "r", 5, 1, 0.5, 900.0, True, live=2, flex=3, allowed=7.5),),
    jobs={"started": 9, "succeeded": 6},
    failures=1,
    gpus=(GpuUse("0", 0.75, 1000, 2000),),
    log_lines_dropped=4,
)


def test_the_page_has_every_declared_metric_and_no_other() -> None:
    page = render_keeper(_SNAPSHOT).decode()
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", page, re.MULTILINE))
    assert helps == KEEPER_METRICS
    assert 'penstock_flex_in_flight{model="m",replica="r"} 3.0' in page
    assert 'penstock_flex_jobs_total{outcome="started"} 9.0' in page
    assert "penstock_keeper_log_lines_dropped_total 4.0" in page
    assert 'penstock_gpu_use{gpu="0"} 0.75' in page


def test_names_are_the_gateways_style_and_nobody_elses() -> None:
    assert not KEEPER_METRICS.keys() & METRICS.keys()
    assert all(name.startswith("penstock_") for name in KEEPER_METRICS)
    assert all(text.endswith(".") for text in KEEPER_METRICS.values())


def test_the_page_is_served_on_a_port_of_its_own() -> None:
    server = PageServer("127.0.0.1", 0, lambda: render_keeper(_SNAPSHOT))
    server.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"penstock_engine_running" in answer.read()
        connection.request("GET", "/elsewhere")
        assert connection.getresponse().status == 404
        connection.close()
    finally:
        server.stop()
