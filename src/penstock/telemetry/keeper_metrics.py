"""Writes a keeper's metrics as Prometheus text: its engines, its flex work, its GPUs. Pure.

Every metric is declared in KEEPER_METRICS with its help text, and documented (a test compares).
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

KEEPER_METRICS: Final = {
    "penstock_engine_running": "Requests that an engine reports as running.",
    "penstock_engine_waiting": "Requests that an engine reports as waiting.",
    "penstock_engine_kv_use": "The share of an engine's KV cache that is in use.",
    "penstock_engine_prefill_tokens_per_second": "Uncached prompt tokens that an engine reads.",
    "penstock_engine_live": "Live requests that gateways report at an engine.",
    "penstock_engine_healthy": "Whether an engine answers, 1 or 0.",
    "penstock_flex_in_flight": "Jobs that this keeper has at an engine.",
    "penstock_flex_allowed": "Jobs that the headroom of an engine allows.",
    "penstock_flex_jobs_total": (
        "Jobs by what became of them: started, started_reserved, succeeded, failed, retried,"
        " handed_back, cancelled, lost."
    ),
    "penstock_flex_tokens_total": (
        "Tokens of jobs that succeeded: prompt, cached (a part of the prompt), output."
    ),
    "penstock_flex_failures_total": "Loops and jobs that failed by a fault of the puller's own.",
    "penstock_keeper_log_lines_dropped_total": (
        "Log lines dropped because standard error was not read or could not be written."
    ),
    "penstock_keeper_traces_dropped_total": (
        "Traces of jobs that were not sent: too many waited, or the collector did not take them."
    ),
    "penstock_gpu_use": "The share of the last moments in which a GPU worked.",
    "penstock_gpu_memory_used_bytes": "Memory of a GPU that is in use.",
    "penstock_gpu_memory_bytes": "Memory of a GPU.",
}
_REPLICA: Final = ["model", "replica"]


class EngineRow(msgspec.Struct, frozen=True):
    """The state of one replica at one moment."""

    model: str
    replica: str
    running: int
    waiting: int
    kv_use: float
    prefill_rate: float
    is_healthy: bool
    live: int = 0
    flex: int = 0
    allowed: float = 0.0


class GpuUse(msgspec.Struct, frozen=True):
    """The state of one GPU at one moment, as its driver reports it."""

    gpu: str
    use: float
    memory_used_bytes: int
    memory_bytes: int


class KeeperSnapshot(msgspec.Struct, frozen=True):
    """All numbers of one keeper."""

    engines: tuple[EngineRow, ...] = ()
    # By outcome.
    jobs: dict[str, int] = {}
    failures: int = 0
    # By kind.
    tokens: dict[str, int] = {}
    gpus: tuple[GpuUse, ...] = ()
    log_lines_dropped: int = 0
    traces_dropped: int = 0


def render_keeper(snapshot: KeeperSnapshot) -> bytes:
    """Return the whole metrics page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(snapshot))
    return generate_latest(registry)


class _Page:
    def __init__(self, snapshot: KeeperSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield self._of_engines("penstock_engine_running", "running")
        yield self._of_engines("penstock_engine_waiting", "waiting")
        yield self._of_engines("penstock_engine_kv_use", "kv_use")
        yield self._of_engines("penstock_engine_prefill_tokens_per_second", "prefill_rate")
        yield self._of_engines("penstock_engine_live", "live")
        yield self._of_engines("penstock_engine_healthy", "is_healthy")
        yield self._of_engines("penstock_flex_in_flight", "flex")
        yield self._of_engines("penstock_flex_allowed", "allowed")
        yield self._counted("penstock_flex_jobs_total", "outcome", self._snapshot.jobs)
        yield self._counted("penstock_flex_tokens_total", "kind", self._snapshot.tokens)
        yield _single("penstock_flex_failures_total", self._snapshot.failures)
        name = "penstock_keeper_log_lines_dropped_total"
        yield _single(name, self._snapshot.log_lines_dropped)
        yield _single("penstock_keeper_traces_dropped_total", self._snapshot.traces_dropped)
        yield self._of_gpus("penstock_gpu_use", "use")
        yield self._of_gpus("penstock_gpu_memory_used_bytes", "memory_used_bytes")
        yield self._of_gpus("penstock_gpu_memory_bytes", "memory_bytes")

    def _counted(self, name: str, label: str, counts: dict[str, int]) -> Metric:
        family = CounterMetricFamily(name, KEEPER_METRICS[name], labels=[label])
        for value, count in counts.items():
            family.add_metric([value], count)
        return family

    def _of_engines(self, name: str, field: str) -> Metric:
        family = GaugeMetricFamily(name, KEEPER_METRICS[name], labels=_REPLICA)
        for row in self._snapshot.engines:
            family.add_metric([row.model, row.replica], float(getattr(row, field)))
        return family

    def _of_gpus(self, name: str, field: str) -> Metric:
        family = GaugeMetricFamily(name, KEEPER_METRICS[name], labels=["gpu"])
        for row in self._snapshot.gpus:
            family.add_metric([row.gpu], float(getattr(row, field)))
        return family


def _single(name: str, value: int) -> Metric:
    return CounterMetricFamily(name, KEEPER_METRICS[name], value=value)
