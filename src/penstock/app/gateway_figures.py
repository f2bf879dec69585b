"""Gathers one gateway worker's metrics from its rooms."""

from collections import Counter
from collections.abc import Mapping

from penstock.app.gateway_rooms import GatewayRooms
from penstock.records.limit import Measure, Period, Scope
from penstock.records.replica import ReplicaState
from penstock.routing.router import split_pool
from penstock.serving.routing_counts import count_routing
from penstock.telemetry.metrics import Gauges, Snapshot


def snapshot(rooms: GatewayRooms) -> Snapshot:
    """Return all current metrics of this worker."""
    ready = {model.id: len(rooms.roster.ready(model.id)) for model in rooms.catalogue.models}
    gauges = Gauges(
        waiting=_waiting(rooms),
        ready_replicas={str(model): count for model, count in ready.items() if count},
        ejected_replicas=len(rooms.router.ejections),
        client_connections=rooms.endpoint.connections,
        engine_connections=rooms.clients.open_connections(),
        sums=_sums(rooms),
        limits={
            "penstock_limit_refusals_total": _by_kind(rooms.limits.refusals),
            "penstock_limit_warnings_total": _by_kind(rooms.limits.warnings),
        },
        contracts={"penstock_contract_effects_total": dict(rooms.contract_counts.effects)},
        cell={**rooms.figures.latest, "penstock_unready_models": _unready(rooms)},
    )
    count_routing(gauges, rooms.router, rooms.exchange)
    return rooms.metrics.snapshot(gauges)


def _waiting(rooms: GatewayRooms) -> dict[str, int]:
    """Return how many requests wait, by model: pools of one model add up."""
    counts: Counter[str] = Counter()
    for pool, count in rooms.gate.waiting().items():
        counts[split_pool(pool)[0]] += count
    return dict(counts)


def _unready(rooms: GatewayRooms) -> dict[str, float]:
    """Return the models that should serve and cannot: a model at zero waits for its requests."""
    roster = rooms.roster
    starting = {each.model for each in roster.all() if each.state is ReplicaState.STARTING}
    return {
        f"model {model}": 1.0
        for model in starting
        if not roster.ready(model) and roster.waking(model) is None
    }


def _sums(rooms: GatewayRooms) -> dict[str, int]:
    return {
        "penstock_log_lines_dropped_total": rooms.log_writer.lines_dropped,
        "penstock_traces_dropped_total": _traces_dropped(rooms),
        "penstock_event_streams": rooms.feed.streams,
        "penstock_leases_held": rooms.limits.leases_held,
        "penstock_lease_round_trips_total": rooms.limits.lease_round_trips,
        "penstock_beyond_leases_total": rooms.limits.beyond_leases,
        "penstock_journal_bytes": rooms.journal.bytes_held(),
        "penstock_journal_bytes_max": rooms.journal.bytes_max,
        "penstock_journal_refusals_total": rooms.journal.refused,
        "penstock_journals_adopted_total": rooms.drain.adopted,
        "penstock_ledger_rows_total": rooms.drain.rows_written,
        "penstock_ledger_unwritable_total": rooms.drain.rows_unwritable,
        "penstock_drain_failures_total": rooms.drain.failures,
        "penstock_responses_unstored_total": rooms.turns.unstored,
        "penstock_contract_unknown_total": rooms.contract_counts.unknown_tasks,
        "penstock_contracts_refused": 1 if rooms.contracts.problem else 0,
    }


def _traces_dropped(rooms: GatewayRooms) -> int:
    return 0 if rooms.tracing is None else rooms.tracing.traces.dropped


def _by_kind(counts: Mapping[tuple[Scope, Measure, Period], int]) -> dict[str, int]:
    return {" ".join(kind): count for kind, count in counts.items()}
