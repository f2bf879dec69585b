"""Decides how many replicas a deployment should have, from its load. Pure.

A replica's *use* is the largest of three shares: of the time that it would need to read its
prompts, of its live slots, and of its KV cache. *Work* is the sum of uses: how many replicas would
be busy all the time. Guarantees: never below `min` or above `max`; one replica fewer at a time, and
only if the rest would have carried the most work of the last `cooldown_seconds`.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.records.deployment import DeploymentSpec, ScaleRules

# The use that replicas are meant to have at most. Beyond it first tokens wait for other prompts:
# the simulated fleet's p95 grows by a quarter at 0.68, and without bound at 0.8.
_USE_UP: Final = 0.7
_USE_DOWN: Final = 0.65
# Below this use it is not for want of replicas that first tokens are late.
_USE_LATE_MIN: Final = 0.6
# How far back a trend looks, as a multiple of the start time, and the shortest time that shows one.
_TREND_STARTS: Final = 3.0
_TREND_SECONDS_MIN: Final = 120.0
# Requests in a window that show its p95.
_TELLING_REQUESTS: Final = 40


class LoadSample(msgspec.Struct, frozen=True):
    """What a deployment's replicas did at one moment."""

    at: float
    ready: int
    # How many replicas' worth of work they did.
    work: float
    # Requests that wait at gateways for a replica.
    waiting: int = 0


class DeploymentLoad(msgspec.Struct, frozen=True):
    """What a decision needs to know."""

    # Over the last minutes, oldest first; never empty.
    samples: Sequence[LoadSample]
    # Of the requests of the last window; None where they were few.
    first_token_p95_ms: float | None
    # How long a replica takes from its start until it serves.
    start_seconds: float
    # How long ago the target was changed, and how long ago the last request was seen.
    changed_seconds: float
    idle_seconds: float
    # Live requests that one replica runs at once.
    slots: int
    # How long the last start took, where a replica that is not forgotten shows it.
    last_start_seconds: float | None = None
    # Whether jobs need it: their deadline is near, or many wait.
    has_due_jobs: bool = False


class _Point(NamedTuple):
    """The mean work of a window, at its end."""

    at: float
    work: float


class ScaleTarget(msgspec.Struct, frozen=True):
    """How many replicas there should be, and why."""

    count: int
    reason: str


def replica_use(
    *, uncached_rate: float, prefill_rate: float, in_flight: int, slots: int, kv_use: float
) -> float:
    """Return the share of one replica that is in use."""
    reading = uncached_rate / prefill_rate if prefill_rate > 0 else 0.0
    return max(reading, in_flight / max(1, slots), kv_use)


def is_telling(requests: int) -> bool:
    """Return whether so many requests show their p95."""
    return requests >= _TELLING_REQUESTS


def scale_target(now: int, spec: DeploymentSpec, load: DeploymentLoad) -> ScaleTarget | None:
    """Return the count of replicas to want instead of `now`; None if that is right."""
    low, high = spec.replicas.min, spec.replicas.max
    if now == 0:
        return _wake(load, high)
    if _is_idle(spec.scale, load, low):
        minutes = spec.scale.idle_to_zero_minutes
        return ScaleTarget(0, f"no request for {minutes:g} minutes")
    curve = _smoothed(load.samples, spec.scale.window_seconds)
    needed = _needed(now, spec.scale, load, curve)
    if needed.count > now:
        return ScaleTarget(min(high, needed.count), needed.reason) if now < high else None
    # Only idleness ends the last replica.
    if now > max(1, low) and _may_shrink(spec.scale, load):
        share = _most(curve, spec.scale.cooldown_seconds) / (now - 1)
        if share < _USE_DOWN:
            return ScaleTarget(now - 1, f"{now - 1} replicas would be {share:.0%} in use")
    return None


def _wake(load: DeploymentLoad, high: int) -> ScaleTarget | None:
    waiting = load.samples[-1].waiting
    if waiting and high:
        # One, however many wait: what they need shows when it serves.
        return ScaleTarget(1, f"requests wait: {waiting}")
    if load.has_due_jobs and high:
        return ScaleTarget(1, "jobs are due")
    return None


def _is_idle(rules: ScaleRules, load: DeploymentLoad, low: int) -> bool:
    seconds = rules.idle_to_zero_minutes * 60
    if not seconds or low or load.has_due_jobs or load.samples[-1].waiting:
        return False
    return min(load.idle_seconds, load.changed_seconds) >= seconds


def _needed(
    now: int, rules: ScaleRules, load: DeploymentLoad, curve: Sequence[_Point]
) -> ScaleTarget:
    """Return how many replicas the work needs by the time when a new one would serve."""
    last, work = load.samples[-1], curve[-1].work
    waiting = last.waiting / max(1, load.slots) if last.ready else 0.0
    ahead = max(0.0, _growth(curve, load.start_seconds)) * load.start_seconds + waiting
    count = math.ceil((work + ahead) / _USE_UP)
    reason = f"{last.ready} replicas do the work of {work:.1f}"
    if ahead >= 0.05:
        reason += f", and {work + ahead:.1f} in {load.start_seconds:.0f} s"
    p95, limit = load.first_token_p95_ms, rules.first_token_p95_ms
    # While a replica starts, first tokens stay late: it has to show its worth first.
    has_settled = (
        last.ready >= now and load.changed_seconds >= load.start_seconds + rules.window_seconds
    )
    is_late = p95 is not None and p95 > limit and work >= _USE_LATE_MIN * last.ready
    if count <= now and is_late and has_settled:
        return ScaleTarget(now + 1, f"first tokens take {p95:.0f} ms (p95), and {limit:g} is meant")
    return ScaleTarget(count, reason)


def _may_shrink(rules: ScaleRules, load: DeploymentLoad) -> bool:
    """Return whether the count has stood for long enough, and nobody waits."""
    last, seconds = load.samples[-1], rules.cooldown_seconds
    p95 = load.first_token_p95_ms
    if last.waiting or (p95 is not None and p95 > rules.first_token_p95_ms):
        return False
    seen_seconds = last.at - load.samples[0].at
    return min(load.changed_seconds, seen_seconds) >= seconds


def _smoothed(samples: Sequence[LoadSample], seconds: float) -> list[_Point]:
    """Return at each sample's time the mean work of the window before it."""
    points, first, total = [], 0, 0.0
    for place, sample in enumerate(samples):
        total += sample.work
        while samples[first].at <= sample.at - seconds:
            total -= samples[first].work
            first += 1
        points.append(_Point(sample.at, total / (place - first + 1)))
    return points


def _most(curve: Sequence[_Point], seconds: float) -> float:
    since = curve[-1].at - seconds
    return max(point.work for point in curve if point.at >= since)


def _growth(curve: Sequence[_Point], start_seconds: float) -> float:
    """Return by how much work grows in a second: the slope of the line through the last points."""
    last = curve[-1].at
    seconds = max(_TREND_SECONDS_MIN, _TREND_STARTS * start_seconds)
    points = [point for point in curve if point.at >= last - seconds]
    if last - points[0].at < _TREND_SECONDS_MIN:
        return 0.0
    middle = sum(point.at for point in points) / len(points)
    level = sum(point.work for point in points) / len(points)
    spread = sum((point.at - middle) ** 2 for point in points)
    rise = sum((point.at - middle) * (point.work - level) for point in points)
    return rise / spread
