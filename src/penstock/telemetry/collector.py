"""The workers' snapshots, added up and written as Prometheus text. Pure."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from penstock.telemetry.metrics import (
    FIRST_TOKEN_BUCKETS,
    METRICS,
    OUTPUT_TOKEN_BUCKETS,
    Histogram,
    Row,
    Snapshot,
)

_LABELS = ["model", "account"]


def render(snapshots: Iterable[Snapshot]) -> bytes:
    """The whole page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(list(snapshots)))
    return generate_latest(registry)


class _Page:
    def __init__(self, snapshots: list[Snapshot]) -> None:
        self._snapshots = snapshots
        self._rows = _merged(snapshots)

    def collect(self) -> Iterator[Metric]:
        yield self._by_reason("penstock_requests_total", "outcome", "outcomes")
        yield self._by_reason("penstock_errors_total", "reason", "errors")
        yield self._histogram("penstock_first_token_seconds", "first_token", FIRST_TOKEN_BUCKETS)
        yield self._histogram("penstock_output_token_seconds", "output_token", OUTPUT_TOKEN_BUCKETS)
        yield self._counter("penstock_prompt_tokens_total", "prompt_tokens")
        yield self._counter("penstock_cached_tokens_total", "cached_tokens")
        yield self._counter("penstock_output_tokens_total", "output_tokens")
        yield self._counter("penstock_retries_total", "retries")
        in_flight = _gauge("penstock_in_flight", _LABELS)
        for row in self._rows:
            in_flight.add_metric([row.model, row.account], row.in_flight)
        yield in_flight
        yield from self._gauges()

    def _by_reason(self, name: str, label: str, field: str) -> Metric:
        family = CounterMetricFamily(name, METRICS[name], labels=[*_LABELS, label])
        for row in self._rows:
            for reason, count in getattr(row, field).items():
                family.add_metric([row.model, row.account, reason], count)
        return family

    def _counter(self, name: str, field: str) -> Metric:
        family = CounterMetricFamily(name, METRICS[name], labels=_LABELS)
        for row in self._rows:
            family.add_metric([row.model, row.account], getattr(row, field))
        return family

    def _histogram(self, name: str, field: str, bounds: tuple[float, ...]) -> Metric:
        family = HistogramMetricFamily(name, METRICS[name], labels=_LABELS)
        edges = [*(str(bound) for bound in bounds), "+Inf"]
        for row in self._rows:
            histogram: Histogram = getattr(row, field)
            buckets = list(zip(edges, accumulate(histogram.counts), strict=True))
            family.add_metric([row.model, row.account], buckets, histogram.sum)
        return family

    def _gauges(self) -> Iterator[Metric]:
        gauges = [snapshot.gauges for snapshot in self._snapshots]
        waiting = _gauge("penstock_waiting", ["model"])
        for model in sorted({model for g in gauges for model in g.waiting}):
            waiting.add_metric([model], sum(g.waiting.get(model, 0) for g in gauges))
        yield waiting
        ready = _gauge("penstock_ready_replicas", ["model"])
        for model in sorted({model for g in gauges for model in g.ready_replicas}):
            # Every worker reads the same roster: the count is one worker's, not a sum.
            ready.add_metric([model], max(g.ready_replicas.get(model, 0) for g in gauges))
        yield ready
        ejected = max((g.ejected_replicas for g in gauges), default=0)
        yield _single("penstock_ejected_replicas", ejected)
        yield _single("penstock_client_connections", sum(g.client_connections for g in gauges))
        yield _single("penstock_engine_connections", sum(g.engine_connections for g in gauges))
        yield _single("penstock_workers", len(gauges))


def _gauge(name: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name], labels=labels)


def _single(name: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name], value=value)


def _merged(snapshots: list[Snapshot]) -> list[Row]:
    merged: dict[tuple[str, str], Row] = {}
    for snapshot in snapshots:
        for row in snapshot.rows:
            into = merged.setdefault((row.model, row.account), Row(row.model, row.account))
            _add(into, row)
    return list(merged.values())


def _add(into: Row, row: Row) -> None:
    for field in ("in_flight", "retries", "prompt_tokens", "cached_tokens", "output_tokens"):
        setattr(into, field, getattr(into, field) + getattr(row, field))
    for counts, more in ((into.outcomes, row.outcomes), (into.errors, row.errors)):
        for name, count in more.items():
            counts[name] = counts.get(name, 0) + count
    for histogram, other in (
        (into.first_token, row.first_token),
        (into.output_token, row.output_token),
    ):
        histogram.counts = [a + b for a, b in zip(histogram.counts, other.counts, strict=True)]
        histogram.sum += other.sum
