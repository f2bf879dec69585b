"""Rules for the size of a simulated fleet: ours, and others to compare it with."""

import math
from collections import deque

import msgspec

from fleet_simulator.daily_load import DailyLoad
from fleet_simulator.scaled_cell import FleetLoad, ScaleRule, p95_of_waits
from penstock.fleet.cell.autoscale import (
    DeploymentLoad,
    LoadSample,
    is_telling,
    replica_use,
    scale_target,
)
from penstock.records.deployment import DeploymentSpec

# Live requests that vLLM runs at once by default on such a host.
_SLOTS = 128
# How often a HorizontalPodAutoscaler looks, the window whose largest answer it takes before it
# shrinks, and the difference that it ignores: Kubernetes' defaults.
_HPA_LOOK_SECONDS = 15.0
_HPA_DOWN_SECONDS = 300.0
_HPA_TOLERANCE = 0.1
_KEPT_SECONDS = 3600.0


def static(count: int) -> ScaleRule:
    """Always the same."""
    return lambda _: count


def oracle(load: DailyLoad, peak_count: int, start_seconds: float) -> ScaleRule:
    """Knows the sine: the share of the peak's replicas that its load will need after a start."""

    def wanted(seen: FleetLoad) -> int:
        soon = max(load.share(seen.now), load.share(seen.now + start_seconds))
        return math.ceil(peak_count * soon)

    return wanted


class KedaRule:
    """So many requests by replica, as KEDA feeds them to a HorizontalPodAutoscaler."""

    def __init__(self, *, by_replica: float, high: int) -> None:
        self._by_replica = by_replica
        self._high = high
        self._looked_at = 0.0
        self._answers: deque[tuple[float, int]] = deque()

    def __call__(self, seen: FleetLoad) -> int:
        if seen.now - self._looked_at < _HPA_LOOK_SECONDS:
            return seen.wanted
        self._looked_at = seen.now
        requests = seen.waiting + seen.running
        ratio = requests / (self._by_replica * seen.wanted)
        count = seen.wanted
        if abs(ratio - 1) > _HPA_TOLERANCE:
            count = min(self._high, max(1, math.ceil(requests / self._by_replica)))
        # At most twice as many, or four more, in one look.
        count = min(count, max(2 * seen.wanted, seen.wanted + 4))
        self._answers.append((seen.now, count))
        while self._answers[0][0] < seen.now - _HPA_DOWN_SECONDS:
            self._answers.popleft()
        return max(count, min(seen.wanted, max(answer for _, answer in self._answers)))


class PenstockRule:
    """The very function that control calls."""

    def __init__(self, spec: DeploymentSpec, start_seconds: float) -> None:
        self._spec = spec
        self._start_seconds = start_seconds
        self._samples: deque[LoadSample] = deque()
        self._changed_at = 0.0
        self.reasons: list[tuple[float, int, str]] = []

    def __call__(self, seen: FleetLoad) -> int:
        running = (seen.running + seen.waiting) / seen.ready
        work = sum(
            replica_use(
                uncached_rate=prefill,
                prefill_rate=1.0,
                in_flight=round(running),
                slots=_SLOTS,
                kv_use=kv,
            )
            for prefill, kv in zip(seen.prefill_uses, seen.kv_uses, strict=True)
        )
        self._samples.append(LoadSample(seen.now, seen.ready, work))
        while self._samples[0].at < seen.now - _KEPT_SECONDS:
            self._samples.popleft()
        waits = seen.first_tokens
        load = DeploymentLoad(
            samples=self._samples,
            first_token_p95_ms=1000 * p95_of_waits(waits) if is_telling(len(waits)) else None,
            start_seconds=self._start_seconds,
            changed_seconds=seen.now - self._changed_at,
            idle_seconds=0.0,
            slots=_SLOTS,
        )
        target = scale_target(seen.wanted, self._spec, load)
        if target is None:
            return seen.wanted
        self._changed_at = seen.now
        self.reasons.append((seen.now, target.count, target.reason))
        return target.count


def our_rule(
    *, high: int, first_token_p95_ms: float, cooldown_seconds: float, start_seconds: float
) -> PenstockRule:
    scale = {"first_token_p95_ms": first_token_p95_ms, "cooldown_seconds": cooldown_seconds}
    fields = {"model": "simulated", "replicas": {"min": 1, "max": high}, "scale": scale}
    return PenstockRule(msgspec.convert(fields, DeploymentSpec), start_seconds)
