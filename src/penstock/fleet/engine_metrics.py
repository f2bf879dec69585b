"""Reads an engine's load from its metrics page. Pure; negative or non-finite numbers are ignored.

The names are vLLM's. An engine with several ranks has a sample for each; they are added up.
"""

import math
import re
from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

_RUNNING: Final = "vllm:num_requests_running"
_WAITING: Final = "vllm:num_requests_waiting"
_KV_USE: Final = "vllm:kv_cache_usage_perc"
_CACHE_CONFIG: Final = "vllm:cache_config_info"
# vLLM counts both when a request ends, so that both always cover the same requests.
_PREFILLED: Final = "vllm:request_prefill_kv_computed_tokens_sum"
_PREFILL_SECONDS: Final = "vllm:request_prefill_time_seconds_sum"
_PROMPTS: Final = "vllm:prefix_cache_queries_total"
_HITS: Final = "vllm:prefix_cache_hits_total"
# An engine without a prefix cache counts its prompts here alone.
_PROMPTS_READ: Final = "vllm:prompt_tokens_total"
_PREFILLS: Final = "vllm:request_prefill_time_seconds_count"
_NAMES: Final = frozenset(
    {
        _RUNNING,
        _WAITING,
        _KV_USE,
        _CACHE_CONFIG,
        _PREFILLED,
        _PREFILL_SECONDS,
        _PREFILLS,
        _PROMPTS,
        _HITS,
        _PROMPTS_READ,
    }
)

_NAME: Final = re.compile(r"[^{ ]+")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

# A shorter prefill takes one engine step whatever its tokens, so it does not show the rate.
_TELLING_TOKENS: Final = 256.0
# The best rate is forgotten after one to two times this period.
_MEMORY_SECONDS: Final = 300.0
# Over how long the rate of given tokens is counted.
_RATE_SECONDS: Final = 60.0


class EngineMetrics(msgspec.Struct, frozen=True):
    """One reading. None and 0 mean that the engine does not report the value."""

    running: int | None = None
    waiting: int | None = None
    kv_use: float = 0.0
    kv_tokens: int = 0
    block_tokens: int = 0
    # Since the engine's start: prefilled uncached tokens, seconds they took, and requests.
    prefilled_tokens: float = 0.0
    prefill_seconds: float = 0.0
    prefills: float = 0.0
    # Since then too: tokens of prompts that were in no cache.
    uncached_tokens: float = 0.0

    @property
    def inside(self) -> int | None:
        """Running and waiting requests; None if the engine does not report them."""
        if self.running is None or self.waiting is None:
            return None
        return self.running + self.waiting


def read_metrics(page: bytes) -> EngineMetrics:
    """Parse the few samples that matter from a page of hundreds."""
    samples: dict[str, list[float | None]] = {}
    kv_tokens = block_tokens = 0
    for line in page.decode(errors="replace").splitlines():
        name = _NAME.match(line)
        if name is None or name[0] not in _NAMES:
            continue
        if name[0] == _CACHE_CONFIG:
            labels = dict(_LABEL.findall(line))
            kv_tokens += _cache_size(labels)
            block_tokens = int(_number(labels.get("block_size", "")) or 0)
            continue
        samples.setdefault(name[0], []).append(_number(line.rpartition(" ")[2]))
    sums = {name: _sum(values) for name, values in samples.items()}
    running, waiting = sums.get(_RUNNING), sums.get(_WAITING)
    prompts = max(sums.get(_PROMPTS) or 0.0, sums.get(_PROMPTS_READ) or 0.0)
    ranks = len(samples.get(_KV_USE, ())) or 1
    return EngineMetrics(
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        kv_use=min(1.0, (sums.get(_KV_USE) or 0.0) / ranks),
        kv_tokens=kv_tokens,
        block_tokens=block_tokens,
        prefilled_tokens=sums.get(_PREFILLED) or 0.0,
        prefill_seconds=sums.get(_PREFILL_SECONDS) or 0.0,
        prefills=sums.get(_PREFILLS) or 0.0,
        uncached_tokens=max(0.0, prompts - (sums.get(_HITS) or 0.0)),
    )


class PrefillRate:
    """Estimates an engine's prefill rate in uncached prompt tokens per second from its readings.

    A request's prefill time runs from its first step to its first token. For prompts that share
    steps each counts the whole time (six at once looked half as fast as one alone, on vLLM 0.32),
    so every reading is at most the true rate, and the best of the last minutes is close to it.
    """

    def __init__(self) -> None:
        self._last: EngineMetrics | None = None
        self._best = 0.0
        self._best_before = 0.0
        self._turned_at = 0.0

    @property
    def tokens_per_second(self) -> float:
        """The best recent rate; 0 until a prompt was long enough to measure it."""
        return max(self._best, self._best_before)

    def note(self, metrics: EngineMetrics, now: float) -> None:
        last, self._last = self._last, metrics
        if last is None:
            return
        tokens = metrics.prefilled_tokens - last.prefilled_tokens
        seconds = metrics.prefill_seconds - last.prefill_seconds
        requests = metrics.prefills - last.prefills
        # A restarted engine counts from 0 again, so these differences may be negative.
        if seconds <= 0 or requests <= 0 or tokens < _TELLING_TOKENS * requests:
            return
        if now - self._turned_at >= _MEMORY_SECONDS:
            self._best_before, self._best, self._turned_at = self._best, 0.0, now
        self._best = max(self._best, tokens / seconds)


class UncachedRate:
    """Counts the uncached prompt tokens that an engine is given in a second, over a minute."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, float]] = deque()

    @property
    def tokens_per_second(self) -> float:
        """0 until two readings were made."""
        if len(self._readings) < 2:
            return 0.0
        (since, before), (now, after) = self._readings[0], self._readings[-1]
        return max(0.0, after - before) / (now - since)

    def note(self, metrics: EngineMetrics, now: float) -> None:
        readings = self._readings
        if readings and (now <= readings[-1][0] or metrics.uncached_tokens < readings[-1][1]):
            # A restarted engine counts from 0 again.
            readings.clear()
        readings.append((now, metrics.uncached_tokens))
        while readings[0][0] < now - _RATE_SECONDS:
            readings.popleft()


def _cache_size(labels: Mapping[str, str]) -> int:
    size = _number(labels.get("kv_cache_size_tokens", ""))
    if size is None:
        blocks = _number(labels.get("num_gpu_blocks", ""))
        size = (blocks or 0.0) * (_number(labels.get("block_size", "")) or 0.0)
    return int(size)


def _sum(values: list[float | None]) -> float | None:
    """Return the sum, or None if a value is invalid, so that the engine does not look idle."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _number(text: str) -> float | None:
    """Return the number if it is finite and not negative, otherwise None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
