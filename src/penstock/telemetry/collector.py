"""Adds up the workers' snapshots and writes them as Prometheus text. Pure."""

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
    GROWTH_BUCKETS,
    METRICS,
    OUTPUT_TOKEN_BUCKETS,
    TURN_BUCKETS,
    WAIT_BUCKETS,
    Gauges,
    Histogram,
    LabelRow,
    Row,
    Snapshot,
)

_LABELS = ["model", "account"]


def render(
    snapshots: Iterable[Snapshot], workers_wanted: int, past: Iterable[Snapshot] = ()
) -> bytes:
    """Return the whole metrics page of a gateway that should have so many workers.

    `past` are the counters of workers that do not answer now (`counters_of`).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(list(snapshots), workers_wanted, list(past)))
    return generate_latest(registry)


def counters_of(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Return the sum of what only grows, without what a worker has at a moment."""
    added = list(snapshots)
    rows = _merged(added)
    for row in rows:
        row.in_flight = 0
    gauges = Gauges()
    for each in (snapshot.gauges for snapshot in added):
        _add_counts(gauges.sums, {n: v for n, v in each.sums.items() if n.endswith("_total")})
        for field in ("limits", "contracts", "reasons"):
            for name, counts in getattr(each, field).items():
                _add_counts(getattr(gauges, field).setdefault(name, {}), counts)
    # Not those of replicas: they are shown while the replica runs.
    workflows, families = ([s.workflows for s in added], [s.families for s in added])
    return Snapshot(rows, gauges, _merged_labels(workflows), _merged_labels(families))


class _Page:
    def __init__(
        self, snapshots: list[Snapshot], workers_wanted: int, past: list[Snapshot]
    ) -> None:
        self._snapshots = snapshots
        self._workers_wanted = workers_wanted
        self._counted = [*snapshots, *past]
        self._rows = _merged(self._counted)

    def collect(self) -> Iterator[Metric]:
        yield self._by_reason("penstock_requests_total", "outcome", "outcomes")
        yield self._by_reason("penstock_errors_total", "reason", "errors")
        yield self._histogram("penstock_first_token_seconds", "first_token", FIRST_TOKEN_BUCKETS)
        yield self._histogram("penstock_output_token_seconds", "output_token", OUTPUT_TOKEN_BUCKETS)
        yield self._histogram("penstock_wait_seconds", "wait", WAIT_BUCKETS)
        yield self._counter("penstock_prompt_tokens_total", "prompt_tokens")
        yield self._counter("penstock_cached_tokens_total", "cached_tokens")
        yield self._counter("penstock_output_tokens_total", "output_tokens")
        yield self._counter("penstock_retries_total", "retries")
        in_flight = _gauge("penstock_in_flight", _LABELS)
        for row in self._rows:
            in_flight.add_metric([row.model, row.account], row.in_flight)
        yield in_flight
        yield from self._money()
        yield from self._gauges()
        yield from self._sums()

    def _money(self) -> Iterator[Metric]:
        name = "penstock_charged_usd_total"
        charged = CounterMetricFamily(name, METRICS[name], labels=_LABELS)
        for row in self._rows:
            charged.add_metric([row.model, row.account], row.charged_nanousd / 10**9)
        yield charged
        yield self._by_reason("penstock_client_retries_total", "outcome", "client_retries")
        yield self._histogram("penstock_turn_tokens", "turn_tokens", TURN_BUCKETS)
        yield self._histogram("penstock_turn_growth_tokens", "turn_growth", GROWTH_BUCKETS)
        workflows = _merged_labels([s.workflows for s in self._counted])
        yield _first_tokens(
            "penstock_workflow_first_token_seconds", ["account", "workflow"], workflows
        )
        yield _outcomes("penstock_workflow_requests_total", "outcomes", workflows)
        yield _outcomes("penstock_recovered_total", "retried", workflows)
        replicas = _merged_labels([s.replicas for s in self._counted])
        yield _first_tokens("penstock_replica_first_token_seconds", ["model", "replica"], replicas)
        families = _merged_labels([s.families for s in self._counted])
        for name, field in (
            ("penstock_family_prompt_tokens_total", "prompt_tokens"),
            ("penstock_family_cached_tokens_total", "cached_tokens"),
        ):
            counter = CounterMetricFamily(name, METRICS[name], labels=["account", "family"])
            for family in families:
                counter.add_metric([family.account, family.label], getattr(family, field))
            yield counter

    def _sums(self) -> Iterator[Metric]:
        gauges = [snapshot.gauges for snapshot in self._counted]
        for name in sorted({name for g in gauges for name in g.sums}):
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield kind(name, METRICS[name], value=sum(g.sums.get(name, 0) for g in gauges))
        yield from _labelled([g.limits for g in gauges], ["scope", "measure", "period"])
        yield from _labelled([g.contracts for g in gauges], ["contract", "kind", "mode"])
        yield from _labelled([g.reasons for g in gauges], ["reason"])
        yield from _of_cell([g.cell for g in gauges])

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
        for row in self._rows:
            histogram: Histogram = getattr(row, field)
            family.add_metric([row.model, row.account], _buckets(histogram, bounds), histogram.sum)
        return family

    def _gauges(self) -> Iterator[Metric]:
        gauges = [snapshot.gauges for snapshot in self._snapshots]
        waiting = _gauge("penstock_waiting", ["model"])
        for model in sorted({model for g in gauges for model in g.waiting}):
            waiting.add_metric([model], sum(g.waiting.get(model, 0) for g in gauges))
        yield waiting
        ready = _gauge("penstock_ready_replicas", ["model"])
        for model in sorted({model for g in gauges for model in g.ready_replicas}):
            # Not a sum, because every worker reads the same roster.
            ready.add_metric([model], max(g.ready_replicas.get(model, 0) for g in gauges))
        yield ready
        ejected = max((g.ejected_replicas for g in gauges), default=0)
        yield _single("penstock_ejected_replicas", ejected)
        yield _single("penstock_client_connections", sum(g.client_connections for g in gauges))
        yield _single("penstock_engine_connections", sum(g.engine_connections for g in gauges))
        heard = min((g.peers_heard for g in gauges), default=0)
        yield _single("penstock_peers_heard", heard)
        yield _single("penstock_workers", len(gauges))
        yield _single("penstock_workers_wanted", self._workers_wanted)


def _gauge(name: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name], labels=labels)


def _labelled(workers: list[dict[str, dict[str, int]]], labels: list[str]) -> Iterator[Metric]:
    """Yield counters, summed over workers, by metric and label values joined by a space."""
    for name in sorted({name for worker in workers for name in worker}):
        counter = CounterMetricFamily(name, METRICS[name], labels=labels)
        for values in sorted({key for worker in workers for key in worker.get(name, ())}):
            count = sum(worker.get(name, {}).get(values, 0) for worker in workers)
            counter.add_metric(values.split(" "), count)
        yield counter


def _of_cell(workers: list[dict[str, dict[str, float]]]) -> Iterator[Metric]:
    """Yield cell-wide figures: the maximum over workers, because all read the same source."""
    for name in sorted({name for worker in workers for name in worker}):
        values: dict[str, float] = {}
        for worker in workers:
            for key, value in worker.get(name, {}).items():
                values[key] = max(value, values.get(key, value))
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        labels = sorted({key.partition(" ")[0] for key in values if key})
        family = kind(name, METRICS[name], labels=labels)
        for key, value in sorted(values.items()):
            family.add_metric([key.partition(" ")[2]] if key else [], value)
        yield family


def _single(name: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name], value=value)


def _merged(snapshots: list[Snapshot]) -> list[Row]:
    merged: dict[tuple[str, str], Row] = {}
    for snapshot in snapshots:
        for row in snapshot.rows:
            into = merged.setdefault((row.model, row.account), Row(row.model, row.account))
            _add(into, row)
    return list(merged.values())


def _merged_labels(workers: list[list[LabelRow]]) -> list[LabelRow]:
    merged: dict[tuple[str, str], LabelRow] = {}
    for rows in workers:
        for row in rows:
            into = merged.setdefault((row.account, row.label), LabelRow(row.account, row.label))
            into.prompt_tokens += row.prompt_tokens
            into.cached_tokens += row.cached_tokens
            _add_histogram(into.first_token, row.first_token)
            for field in ("outcomes", "retried"):
                _add_counts(getattr(into, field), getattr(row, field))
    return list(merged.values())


def _outcomes(name: str, field: str, rows: list[LabelRow]) -> Metric:
    family = CounterMetricFamily(name, METRICS[name], labels=["account", "workflow", "outcome"])
    for row in rows:
        for outcome, count in getattr(row, field).items():
            family.add_metric([row.account, row.label, outcome], count)
    return family


def _first_tokens(name: str, labels: list[str], rows: list[LabelRow]) -> Metric:
    family = HistogramMetricFamily(name, METRICS[name], labels=labels)
    for row in rows:
        buckets = _buckets(row.first_token, FIRST_TOKEN_BUCKETS)
        family.add_metric([row.account, row.label], buckets, row.first_token.sum)
    return family


def _buckets(histogram: Histogram, bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    edges = [*(str(bound) for bound in bounds), "+Inf"]
    return list(zip(edges, map(float, accumulate(histogram.counts)), strict=True))


_COUNTS = (
    "in_flight", "retries", "prompt_tokens", "cached_tokens", "output_tokens", "charged_nanousd",
)  # fmt: skip
_BY_REASON = ("outcomes", "errors", "client_retries")
_HISTOGRAMS = ("first_token", "output_token", "wait", "turn_tokens", "turn_growth")


def _add_counts(into: dict[str, int], counts: dict[str, int]) -> None:
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count


def _add(into: Row, row: Row) -> None:
    for field in _COUNTS:
        setattr(into, field, getattr(into, field) + getattr(row, field))
    for field in _BY_REASON:
        _add_counts(getattr(into, field), getattr(row, field))
    for field in _HISTOGRAMS:
        _add_histogram(getattr(into, field), getattr(row, field))


def _add_histogram(into: Histogram, more: Histogram) -> None:
    into.counts = [a + b for a, b in zip(into.counts, more.counts, strict=True)]
    into.sum += more.sum
