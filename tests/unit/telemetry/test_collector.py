"""The page: the workers' numbers added up, as text that Prometheus reads."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from penstock.telemetry.collector import render
from penstock.telemetry.counters import ModelCounters
from penstock.telemetry.metrics import (
    METRICS,
    Gauges,
    Row,
    Snapshot,
)

SUMMED = (
    "penstock_lease", "penstock_beyond", "penstock_journal", "penstock_ledger", "penstock_drain",
    "penstock_route_", "penstock_index_", "penstock_sessions_", "penstock_ejections_",
    "penstock_signal_", "penstock_workers_in", "penstock_signals_sent", "penstock_signals_heard",
    "penstock_signals_trimmed", "penstock_event_streams", "penstock_log_lines",
    "penstock_responses_", "penstock_contracts_", "penstock_contract_unknown",
    "penstock_traces_",
)  # fmt: skip
OF_CELL = (
    "penstock_flex_", "penstock_webhook_", "penstock_host_silent", "penstock_unready_",
    "penstock_decision_chain",
)  # fmt: skip
BY_REASON = ("penstock_session_moves_total", "penstock_signals_dropped_total")


def parse(page: bytes) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(page.decode())}


def value(families: dict[str, Metric], sample: str, **labels: str) -> float:
    found = [
        each.value
        for family in families.values()
        for each in family.samples
        if each.name == sample and labels.items() <= each.labels.items()
    ]
    assert len(found) == 1, (sample, labels, found)
    return float(found[0])


def row(model: str = "m", account: str = "a", scale: int = 1) -> Row:
    made = ModelCounters(model, account)
    made.in_flight = 1 * scale
    made.retries = 2 * scale
    made.prompt_tokens = 30 * scale
    made.cached_tokens = 10 * scale
    made.output_tokens = 5 * scale
    made.outcomes = {"ok": 3 * scale, "failed": scale}
    made.errors = {"engine_lost": scale}
    for _ in range(scale):
        made.first_token.add(0.3)
        made.first_token.add(500.0)
        made.output_token.add(0.02)
    return made.row()


def test_page_of_no_workers_is_still_a_page() -> None:
    families = parse(render([], 2))
    assert value(families, "penstock_workers") == 0
    assert value(families, "penstock_workers_wanted") == 2
    assert value(families, "penstock_ejected_replicas") == 0


def test_every_declared_metric_is_on_the_page_and_no_other() -> None:
    sums = {name: 1 for name in METRICS if name.startswith(SUMMED)}
    limits = {name: {"account tokens minute": 1} for name in METRICS if "_limit_" in name}
    gauges = Gauges(waiting={"m": 1}, ready_replicas={"m": 1}, sums=sums, limits=limits)
    gauges.contracts = {"penstock_contract_effects_total": {"review output enforce": 1}}
    gauges.reasons = {name: {"load": 1} for name in BY_REASON}
    gauges.cell = {name: {"model m": 1.0} for name in METRICS if name.startswith(OF_CELL)}
    page = render([Snapshot([row()], gauges)], 2)
    families = parse(page)
    names = {
        name + "_total" if family.type == "counter" else name for name, family in families.items()
    }
    assert names == set(METRICS)
    for name, text in METRICS.items():
        assert f"# HELP {name} {text}".encode() in page
        assert f"# TYPE {name} ".encode() in page


def test_counters_and_gauges_are_added_up_over_workers() -> None:
    snapshots = [
        Snapshot([row(scale=1)], Gauges(client_connections=2, engine_connections=3)),
        Snapshot([row(scale=2)], Gauges(client_connections=5, engine_connections=7)),
    ]
    families = parse(render(snapshots, 2))
    of = {"model": "m", "account": "a"}
    assert value(families, "penstock_in_flight", **of) == 3
    assert value(families, "penstock_retries_total", **of) == 6
    assert value(families, "penstock_prompt_tokens_total", **of) == 90
    assert value(families, "penstock_cached_tokens_total", **of) == 30
    assert value(families, "penstock_output_tokens_total", **of) == 15
    assert value(families, "penstock_requests_total", outcome="ok", **of) == 9
    assert value(families, "penstock_requests_total", outcome="failed", **of) == 3
    assert value(families, "penstock_errors_total", reason="engine_lost", **of) == 3
    assert value(families, "penstock_client_connections") == 7
    assert value(families, "penstock_engine_connections") == 10
    assert value(families, "penstock_workers") == 2


def test_histograms_are_cumulative_and_added_up() -> None:
    families = parse(render([Snapshot([row(scale=1)], Gauges()), Snapshot([row()], Gauges())], 2))
    name, of = "penstock_first_token_seconds", {"model": "m", "account": "a"}
    assert value(families, f"{name}_bucket", le="0.25", **of) == 0
    assert value(families, f"{name}_bucket", le="0.5", **of) == 2
    assert value(families, f"{name}_bucket", le="128.0", **of) == 2
    assert value(families, f"{name}_bucket", le="+Inf", **of) == 4
    assert value(families, f"{name}_count", **of) == 4
    assert value(families, f"{name}_sum", **of) == pytest.approx(2 * 500.3)


def test_models_and_accounts_stay_apart() -> None:
    snapshot = Snapshot([row("m", "a"), row("m", "b", 2), row("n", "a", 3)], Gauges())
    families = parse(render([snapshot], 2))
    assert value(families, "penstock_retries_total", model="m", account="a") == 2
    assert value(families, "penstock_retries_total", model="m", account="b") == 4
    assert value(families, "penstock_retries_total", model="n", account="a") == 6


def test_what_workers_see_alike_is_not_added_up() -> None:
    # Each worker reads the same roster; each has found the dead ones by itself.
    gauges = [
        Gauges(waiting={"m": 2}, ready_replicas={"m": 4, "n": 1}, ejected_replicas=1),
        Gauges(waiting={"m": 3, "n": 1}, ready_replicas={"m": 3}, ejected_replicas=2),
    ]
    families = parse(render([Snapshot([], each) for each in gauges], 2))
    assert value(families, "penstock_ready_replicas", model="m") == 4
    assert value(families, "penstock_ready_replicas", model="n") == 1
    assert value(families, "penstock_ejected_replicas") == 2
    assert value(families, "penstock_waiting", model="m") == 5
    assert value(families, "penstock_waiting", model="n") == 1


def test_counts_by_reason_are_added_up_over_workers() -> None:
    name = "penstock_session_moves_total"
    gauges = [
        Gauges(reasons={name: {"load": 2, "drain": 0}}),
        Gauges(reasons={name: {"load": 1, "lost": 4}}),
        Gauges(),
    ]
    families = parse(render([Snapshot([], each) for each in gauges], 2))
    for reason, count in {"load": 3, "drain": 0, "lost": 4}.items():
        assert value(families, name, reason=reason) == count


def test_peers_are_counted_by_the_worker_that_hears_the_fewest() -> None:
    gauges = [Gauges(peers_heard=3), Gauges(peers_heard=1), Gauges(peers_heard=3)]
    families = parse(render([Snapshot([], each) for each in gauges], 2))
    assert value(families, "penstock_peers_heard") == 1


def test_rendering_changes_no_workers_numbers() -> None:
    mine = row()
    for _ in range(3):
        render([Snapshot([mine], Gauges()), Snapshot([mine], Gauges())], 2)
    assert mine == row()


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_labels_of_any_text_leave_the_page_readable(model: str, account: str) -> None:
    snapshot = Snapshot([row(model, account)], Gauges(waiting={model: 2}))
    page = render([snapshot], 2).decode()
    lines = [line for line in page.split("\n") if line.startswith("penstock_retries_total{")]
    assert len(lines) == 1
    assert lines[0].endswith("} 2.0")
