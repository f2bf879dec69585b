"""Adds the counts of routing and signals to the metrics that a worker gives the collector."""

from penstock.records.signal import PeerState
from penstock.routing import Router
from penstock.signals import GossipLoops
from penstock.telemetry.metrics import Gauges


def count_routing(gauges: Gauges, router: Router, exchange: GossipLoops | None) -> None:
    """Add the counts to `gauges`; `exchange` is None until this worker exchanges signals."""
    knowledge, ejections = router.knowledge, router.ejections
    gauges.sums |= {
        "penstock_route_cached_expected_total": knowledge.cached_expected,
        "penstock_route_cached_real_total": knowledge.cached_real,
        # `version` counts ejections and restorations, which differ by those ejected now.
        "penstock_ejections_total": (ejections.version + len(ejections)) // 2,
        "penstock_index_links": len(knowledge.index),
        "penstock_index_bytes": knowledge.index.bytes_held(),
        "penstock_sessions_remembered": len(knowledge.sessions),
    }
    gauges.reasons["penstock_session_moves_total"] = dict(router.moves)
    if exchange is None:
        return
    counts = exchange.counts
    gauges.peers_heard = exchange.peers.heard()
    gauges.sums |= {
        "penstock_workers_in_silence": int(exchange.state is PeerState.SILENT),
        "penstock_signals_sent_total": counts.sent,
        "penstock_signals_heard_total": counts.heard,
        "penstock_signals_trimmed_total": counts.trimmed,
        "penstock_signal_failures_total": counts.failures,
    }
    gauges.reasons["penstock_signals_dropped_total"] = {
        reason.value: count for reason, count in counts.dropped.items()
    }
