"""What routing and signals count, as metrics that are declared."""

from tests.unit.routing.routing_samples import a_request, a_router, place, replicas, serve

from penstock.records.signal import PeerState
from penstock.routing import Router
from penstock.serving.routing_counts import count_routing
from penstock.signals import CellKey, Drop, GossipLoops, Identity, SignalsSettings
from penstock.telemetry.metrics import METRICS, Gauges
from penstock.testing.manual_clock import ManualClock


def counted(router: Router, exchange: GossipLoops | None = None) -> Gauges:
    gauges = Gauges(sums={"penstock_journal_bytes": 1})
    count_routing(gauges, router, exchange)
    assert set(gauges.sums) | set(gauges.reasons) <= set(METRICS)
    assert gauges.sums["penstock_journal_bytes"] == 1, "what was there is kept"
    return gauges


def test_expected_and_real_cached_tokens_are_told() -> None:
    router = a_router(*replicas(2))
    serve(router, a_request("t", "s", "hello", session=1), 1.0)
    serve(router, a_request("t", "s", "hello", "hi", "more", session=1), 2.0)
    sums = counted(router).sums
    assert sums["penstock_route_cached_expected_total"] > 0
    expected = sums["penstock_route_cached_expected_total"]
    assert sums["penstock_route_cached_real_total"] == expected
    assert sums["penstock_sessions_remembered"] == 1
    assert sums["penstock_index_links"] == 5
    assert sums["penstock_index_bytes"] > 0


def test_ejections_are_counted_through_returns_and_departures() -> None:
    router = a_router(*replicas(3))
    first, second, third = (each.id for each in replicas(3))
    router.ejections.eject(first, 1.0)
    router.ejections.eject(first, 1.5)
    router.ejections.restore(first)
    router.ejections.eject(first, 2.0)
    router.ejections.eject(second, 3.0)
    router.ejections.forget_all_but(frozenset({third}))
    assert counted(router).sums["penstock_ejections_total"] == 3
    router.ejections.eject(third, 4.0)
    assert counted(router).sums["penstock_ejections_total"] == 4


def test_moves_are_told_by_reason() -> None:
    router = a_router(*replicas(2))
    assert counted(router).reasons["penstock_session_moves_total"] == {
        "load": 0,
        "drain": 0,
        "lost": 0,
    }
    place(router, a_request("t", "s", "hello", session=1), "r0", 1.0)
    router.ejections.eject(replicas(2)[0].id, 2.0)
    place(router, a_request("t", "s", "hello", "hi", "more", session=1), "r1", 3.0)
    assert counted(router).reasons["penstock_session_moves_total"]["lost"] == 1


def test_what_was_said_and_heard_is_told() -> None:
    router = a_router(*replicas(1))
    exchange = GossipLoops(
        Identity(1, "host"), CellKey("mark", b"k" * 32), SignalsSettings(transport="off"),
        ManualClock(), router,
    )  # fmt: skip
    exchange.counts.sent, exchange.counts.heard = 5, 3
    exchange.counts.drop(Drop.FORGED)
    gauges = counted(router, exchange)
    assert gauges.sums["penstock_signals_sent_total"] == 5
    assert gauges.sums["penstock_signals_heard_total"] == 3
    assert gauges.reasons["penstock_signals_dropped_total"]["forged"] == 1
    assert gauges.sums["penstock_workers_in_silence"] == 0
    exchange.state = PeerState.SILENT
    assert counted(router, exchange).sums["penstock_workers_in_silence"] == 1
